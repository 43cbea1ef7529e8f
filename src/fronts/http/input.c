#include "http/input.h"

#include "base/large.h"

#include <stdlib.h>
#include <string.h>

enum { KEEP_BYTES_MIN = 256, GROW_BYTES_MIN = 64 * 1024 };

/* The beginning of memory that is freed in pieces. */
struct spent {
    struct reactor_task task;
    size_t bytes;
};

static bool free_piece(struct reactor_task *task)
{
    struct spent *spent = (struct spent *)(void *)task;
    size_t bytes = spent->bytes;
    if (bytes < 2 * LARGE_BYTES) {
        large_free(spent, bytes);
        return false;
    }
    spent->bytes = bytes - LARGE_BYTES;
    large_shrink(spent, bytes, spent->bytes);
    return true;
}

void http_input_free(struct http_front *front, char *bytes, size_t cap)
{
    if (cap)
        http_budget_remove(front, cap);
    if (cap < 2 * LARGE_BYTES) {
        large_free(bytes, cap);
        return;
    }
    struct spent *spent = (struct spent *)(void *)bytes;
    *spent = (struct spent){.task.piece = free_piece, .bytes = cap};
    list_init(&spent->task.list);
    reactor_add_task(front->reactor, &spent->task);
}

void http_input_drop_bytes(struct http_connection *connection)
{
    http_input_free(connection->front, connection->parser.in, connection->parser.in_cap);
    connection->parser.in = NULL;
    connection->parser.in_len = connection->parser.in_cap = 0;
}

void http_input_drop(struct http_connection *connection)
{
    http_input_drop_bytes(connection);
    connection->parser.framing = (struct http_framing){0};
    http_long_line_leave(connection);
}

bool http_input_grow(struct http_connection *connection, size_t cap)
{
    if (cap <= connection->parser.in_cap)
        return true;
    char *in = large_grow(connection->parser.in, connection->parser.in_cap, cap);
    if (!in)
        return false;
    http_budget_add(connection->front, cap - connection->parser.in_cap);
    connection->parser.in = in;
    connection->parser.in_cap = cap;
    return true;
}

bool http_input_keep(struct http_connection *connection, const char *bytes, size_t len)
{
    if (len == 0) {
        http_input_drop_bytes(connection);
        return true;
    }
    if (len > connection->parser.in_cap) {
        size_t cap = KEEP_BYTES_MIN;
        while (cap < len)
            cap *= 2;
        if (!http_input_grow(connection, cap))
            return false;
    }
    if (bytes != connection->parser.in)
        memmove(connection->parser.in, bytes, len);
    connection->parser.in_len = len;
    return true;
}

size_t http_input_cap_wanted(const struct http_connection *connection)
{
    const struct http_framing *framing = &connection->parser.framing;
    size_t whole = framing->head_bytes + framing->length;
    size_t cap = connection->parser.in_len * 2 + GROW_BYTES_MIN;
    if (connection->parser.in_cap - connection->parser.in_len >= GROW_BYTES_MIN)
        return connection->parser.in_cap;
    if (framing->head_bytes && !framing->chunked && whole > connection->parser.in_len &&
        whole < cap)
        cap = whole;
    return cap > connection->parser.in_cap ? cap : connection->parser.in_cap;
}

bool http_input_take_body(struct http_connection *connection, struct slice body,
                          struct http_kept_body *out)
{
    struct http_parser *parser = &connection->parser;
    if (parser->in && body.at >= parser->in && body.at < parser->in + parser->in_cap) {
        *out = (struct http_kept_body){.body = body, .bytes = parser->in, .cap = parser->in_cap};
        parser->in = NULL;
        parser->in_len = parser->in_cap = 0;
        return true;
    }
    char *bytes = large_grow(NULL, 0, body.len ? body.len : 1);
    if (!bytes)
        return false;
    if (body.len)
        memcpy(bytes, body.at, body.len);
    *out = (struct http_kept_body){
        .body = slice_make(bytes, body.len), .bytes = bytes, .cap = body.len};
    http_budget_add(connection->front, body.len);
    return true;
}

void http_kept_body_drop(struct http_front *front, struct http_kept_body *kept)
{
    http_input_free(front, kept->bytes, kept->cap);
    *kept = (struct http_kept_body){0};
}
