#include "http/http2_stream.h"

#include "base/large.h"
#include "base/timestamp.h"
#include "http/exchange.h"
#include "http/input.h"
#include "http/site.h"
#include "http/stream.h"
#include "http/unsent.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STREAM_BYTES = 512,        /* approximate memory of an open stream */
    FIELD_OVERHEAD_BYTES = 32, /* of a field (RFC 9113, 6.5.2) */
    FIELDS_MAX = 48,           /* of an answer */
    INPUT_GROW_BYTES = 64 * 1024,
    FRAME_HEAD_BYTES = 9
};

/* ---- life ---- */

struct http2_stream *http2_stream_new(struct http2 *http2, int32_t id)
{
    struct http_front *front = http2->connection->front;
    struct http2_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->http2 = http2;
    stream->id = id;
    stream->since_ms = http_front_now_ms(front);
    stream->body_bytes_max = UINT64_MAX;
    list_init(&stream->ready);
    list_add_last(&http2->streams, &stream->node);
    http2->stream_count++;
    stream->is_incomplete = true;
    http2->incomplete_count++;
    http_budget_add(front, STREAM_BYTES);
    return stream;
}

void http2_stream_drop_input(struct http2_stream *stream)
{
    http_input_free(stream->http2->connection->front, stream->in, stream->in_cap);
    stream->in = NULL;
    stream->in_len = stream->in_cap = 0;
}

/* Counts what is left of the answer, and its memory in the budget. */
static void count_stream_out(struct http2_stream *stream)
{
    size_t bytes = stream->out.cap > BUDGET_SMALL_BYTES ? stream->out.cap : 0;
    bool has_out = stream->out.len > stream->out_at;
    stream->http2->out_count += has_out;
    stream->http2->out_count -= stream->has_out;
    stream->has_out = has_out;
    budget_recount(&stream->http2->connection->front->shared->budget, &stream->out_counted, bytes);
}

static void drop_output(struct http2_stream *stream)
{
    http_front_give_back(stream->http2->connection->front, &stream->out);
    stream->out_at = 0;
    count_stream_out(stream);
}

void http2_stream_end_input(struct http2_stream *stream)
{
    stream->http2->incomplete_count -= stream->is_incomplete;
    stream->is_incomplete = false;
}

void http2_stream_free(struct http2_stream *stream)
{
    struct http2 *http2 = stream->http2;
    struct http_connection *connection = http2->connection;
    struct http_front *front = connection->front;
    struct http_exchange *exchange = stream->exchange;
    list_remove(&stream->node);
    if (!list_is_empty(&stream->ready))
        http_long_line_leave(connection); /* its request may have been the one in that queue */
    list_remove(&stream->ready);
    http2_stream_end_input(stream);
    http2->open_answers -= stream->is_open;
    if (http2->current == stream)
        http2->current = NULL;
    if (exchange && exchange->stream)
        http_stream_cut(exchange->stream);
    stream->exchange = NULL;
    if (exchange)
        http_exchange_orphan(exchange);
    if (stream->leases.cap)
        http_lease_return_all(front, &stream->leases);
    http2_stream_drop_input(stream);
    drop_output(stream);
    http_front_give_back(front, &stream->trailers);
    connection->exchange_count -= stream->is_counted;
    http2->stream_count--;
    http_budget_remove(front, STREAM_BYTES);
    free(stream);
}

void http2_stream_make_ready(struct http2_stream *stream)
{
    if (list_is_empty(&stream->ready))
        list_add_last(&stream->http2->ready, &stream->ready);
}

/* ---- the request ---- */

static void append_field(struct buffer *out, struct slice name, struct slice value)
{
    size_t bytes = name.len + 2 + value.len + 2;
    char *into = buffer_reserve(out, bytes);
    if (!into)
        return;
    memcpy(into, name.at, name.len);
    memcpy(into + name.len, ": ", 2);
    if (value.len)
        memcpy(into + name.len + 2, value.at, value.len);
    memcpy(into + bytes - 2, "\r\n", 2);
    out->len += bytes;
}

static void set_pseudo(struct http_front *front, struct buffer *into, struct slice value)
{
    http_front_lend(front, into);
    buffer_append_slice(into, value);
}

bool http2_block_take(struct http2 *http2, struct slice name, struct slice value)
{
    struct http_front *front = http2->connection->front;
    struct http2_block *block = &http2->block;
    block->bytes += name.len + value.len + FIELD_OVERHEAD_BYTES;
    if (block->bytes > HTTP2_FIELDS_BYTES_MAX)
        return false;
    if (slice_is(name, ":method")) {
        set_pseudo(front, &block->method, value);
    } else if (slice_is(name, ":path")) {
        set_pseudo(front, &block->path, value);
    } else if (slice_is(name, ":authority")) {
        set_pseudo(front, &block->authority, value);
    } else if (slice_is(name, "host")) {
        /* Twice the same host is once; different ones are refused as in HTTP/1.1. */
        if (slice_equals(value, buffer_slice(&block->authority)))
            return true;
        http_front_lend(front, &block->host);
        append_field(&block->host, name, value);
    } else if (name.len && *name.at != ':') {
        http_front_lend(front, &block->fields);
        append_field(&block->fields, name, value);
    }
    return true;
}

static void drop_block(struct http2 *http2)
{
    struct http_front *front = http2->connection->front;
    struct http2_block *block = &http2->block;
    http_front_give_back(front, &block->method);
    http_front_give_back(front, &block->path);
    http_front_give_back(front, &block->authority);
    http_front_give_back(front, &block->host);
    http_front_give_back(front, &block->fields);
    block->bytes = 0;
}

/* Makes room for `more` bytes of the request. Returns false if there is no memory. */
static bool grow_input(struct http2_stream *stream, size_t more)
{
    struct http_front *front = stream->http2->connection->front;
    size_t cap = stream->in_cap;
    if (stream->in_len + more <= cap)
        return true;
    cap = cap ? cap * 2 : 256;
    if (cap > stream->in_cap + INPUT_GROW_BYTES && cap > 1024 * 1024)
        cap = stream->in_cap + 1024 * 1024;
    if (cap < stream->in_len + more)
        cap = stream->in_len + more;
    if (!http_budget_has(front, cap - stream->in_cap))
        return false;
    char *in = large_grow(stream->in, stream->in_cap, cap);
    if (!in)
        return false;
    http_budget_add(front, cap - stream->in_cap);
    stream->in = in;
    stream->in_cap = cap;
    return true;
}

static void append_input(struct http2_stream *stream, const void *bytes, size_t len)
{
    if (len)
        memcpy(stream->in + stream->in_len, bytes, len);
    stream->in_len += len;
}

bool http2_block_end(struct http2 *http2, struct http2_stream *stream)
{
    struct http2_block *block = &http2->block;
    bool failed = block->method.failed || block->path.failed || block->authority.failed ||
                  block->host.failed || block->fields.failed;
    if (!stream || failed) {
        drop_block(http2);
        return !failed;
    }
    static const char version[] = " HTTP/1.1\r\n", host[] = "host: ";
    size_t bytes = block->method.len + 1 + block->path.len + sizeof version + sizeof host +
                   block->authority.len + 2 + block->host.len + block->fields.len + 2;
    bool is_good = grow_input(stream, bytes);
    if (is_good) {
        append_input(stream, block->method.at, block->method.len);
        append_input(stream, " ", 1);
        append_input(stream, block->path.at, block->path.len);
        append_input(stream, version, sizeof version - 1);
        if (block->authority.len) {
            append_input(stream, host, sizeof host - 1);
            append_input(stream, block->authority.at, block->authority.len);
            append_input(stream, "\r\n", 2);
        }
        append_input(stream, block->host.at, block->host.len);
        append_input(stream, block->fields.at, block->fields.len);
        append_input(stream, "\r\n", 2);
        stream->head_bytes = stream->in_len;
    }
    drop_block(http2);
    return is_good;
}

void http2_stream_take(struct http2_stream *stream, const uint8_t *bytes, size_t len)
{
    if (stream->is_starved || stream->is_begun)
        return;
    if (!grow_input(stream, len)) {
        stream->is_starved = true;
        return;
    }
    append_input(stream, bytes, len);
}

/* ---- the answer ---- */

/* A list of fields in the form of nghttp2. */
struct field_list {
    nghttp2_nv at[FIELDS_MAX];
    size_t count;
};

static void add_field(struct field_list *list, struct slice name, struct slice value)
{
    if (list->count == FIELDS_MAX)
        return;
    list->at[list->count++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.at,
                                           .namelen = name.len,
                                           .value = (uint8_t *)(uintptr_t)value.at,
                                           .valuelen = value.len};
}

/* Adds fields that are stored as lines of HTTP/1.1. Turns their names to lower case in place. */
static void add_lines(struct field_list *list, struct buffer *lines)
{
    char *at = lines->at, *end = lines->at + lines->len;
    while (at < end) {
        char *colon = memchr(at, ':', (size_t)(end - at));
        char *stop = colon ? memchr(colon, '\r', (size_t)(end - colon)) : NULL;
        if (!stop)
            break;
        for (char *c = at; c < colon; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c = (char)(*c | 0x20);
        add_field(list, slice_make(at, (size_t)(colon - at)),
                  slice_make(colon + 2, (size_t)(stop - colon - 2)));
        at = stop + 2;
    }
}

/* Adds the fields that HTTP/1.1 adds to each answer as well. */
static void add_common_lines(const struct http_exchange *exchange)
{
    struct http_front *front = exchange->front;
    if (front->shared->clock) {
        buffer_append_text(&front->fields, "tarry-test-clock: ");
        timestamp_emit(&front->fields, clock_wall_ms_of(front->shared->clock->clock));
        buffer_append_text(&front->fields, "\r\n");
    }
    if (front->options.cors_origins)
        http_cors_emit(exchange->connection->listener->hosts.origins, exchange->cors_origin,
                       &front->fields);
}

/* Gives nghttp2 the next part of the answer. */
static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *into, size_t cap,
                           uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct http2_stream *stream = source->ptr;
    size_t left = stream->out.len - stream->out_at;
    size_t len = left < cap ? left : cap;
    (void)ctx;
    if (!len && !stream->is_answered) {
        stream->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (len)
        memcpy(into, stream->out.at + stream->out_at, len);
    stream->out_at += len;
    if (stream->out_at == stream->out.len) {
        drop_output(stream);
        if (stream->is_answered) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
            if (stream->trailers.len) {
                struct field_list list;
                list.count = 0;
                add_lines(&list, &stream->trailers);
                *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                if (nghttp2_submit_trailer(session, id, list.at, list.count) != 0)
                    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
            }
        }
    }
    return (ssize_t)len;
}

/* Sends the head of the answer. `has_body`: DATA or trailers in a frame of their own follow. */
static void submit_head(struct http2_stream *stream, struct field_list *list, bool has_body)
{
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_answer};
    stream->since_ms = http_front_now_ms(stream->http2->connection->front);
    if (nghttp2_submit_response(stream->http2->session, stream->id, list->at, list->count,
                                has_body ? &provider : NULL) != 0)
        (void)nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_INTERNAL_ERROR);
}

static void add_status(struct field_list *list, struct http_front *front, char text[static 3],
                       uint16_t status)
{
    text[0] = (char)('0' + status / 100);
    text[1] = (char)('0' + status / 10 % 10);
    text[2] = (char)('0' + status % 10);
    add_field(list, slice_of(":status"), slice_make(text, 3));
    add_field(list, slice_of("date"), slice_of(http_front_date(front)));
}

/* Releases the exchange, whose answer is the stream's now. */
static void release(struct http2_stream *stream)
{
    struct http_exchange *exchange = stream->exchange;
    stream->exchange = NULL;
    exchange->frames = NULL;
    http2_flood_forgive(&stream->http2->flood);
    http_exchange_release(exchange);
}

void http2_add(struct http_exchange *exchange)
{
    struct http2_stream *stream = exchange->connection->http2->current;
    exchange->frames = stream;
    if (!stream) /* the connection itself is refused */
        return;
    assert(!stream->exchange);
    stream->exchange = exchange;
    stream->is_counted = true;
}

void http2_answer(struct http_exchange *exchange, uint16_t status, const char *content_type)
{
    struct http_front *front = exchange->front;
    struct http2_stream *stream = exchange->frames;
    struct field_list list;
    char status_text[3], length[24];
    list.count = 0;
    add_status(&list, front, status_text, status);
    if (content_type)
        add_field(&list, slice_of("content-type"), slice_of(content_type));
    bool has_trailers = front->trailers.len > 0, has_body = content_type && front->body.len;
    if (content_type && !has_trailers) {
        (void)snprintf(length, sizeof length, "%zu", front->body.len);
        add_field(&list, slice_of("content-length"), slice_of(length));
    }
    add_common_lines(exchange);
    add_lines(&list, &front->fields);
    if (exchange->is_head)
        has_body = has_trailers = false;
    if (has_trailers && !has_body) { /* they end the head */
        add_lines(&list, &front->trailers);
        has_trailers = false;
    }
    if (has_body) {
        http_front_lend(front, &stream->out);
        buffer_append_slice(&stream->out, buffer_slice(&front->body));
    }
    if (has_trailers) {
        http_front_lend(front, &stream->trailers);
        buffer_append_slice(&stream->trailers, buffer_slice(&front->trailers));
    }
    if (exchange->has_leases) {
        stream->leases = exchange->leases;
        exchange->leases = (struct buffer){0};
        exchange->has_leases = false;
        http_lease_set_end(&stream->leases, has_body ? front->body.len : 0);
    }
    bool failed = stream->out.failed || stream->trailers.failed;
    stream->is_answered = true;
    if (failed)
        (void)nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_INTERNAL_ERROR);
    else
        submit_head(stream, &list, has_body);
    count_stream_out(stream);
    http_connection_touch(exchange->connection);
    release(stream);
}

void http2_proceed(struct http_exchange *exchange)
{
    struct http2_stream *stream = exchange->frames;
    struct field_list list;
    list.count = 0;
    add_field(&list, slice_of(":status"), slice_of("100"));
    (void)nghttp2_submit_headers(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id, NULL,
                                 list.at, list.count, NULL);
    http_connection_touch(exchange->connection);
    exchange->connection->exchange_count -= stream->is_counted;
    stream->is_counted = false;
    release(stream);
}

void http2_stream_open(struct http2_stream *stream, const char *content_type)
{
    struct http_exchange *exchange = stream->exchange;
    struct field_list list;
    char status_text[3];
    list.count = 0;
    add_status(&list, exchange->front, status_text, 200);
    add_field(&list, slice_of("content-type"), slice_of(content_type));
    add_common_lines(exchange);
    add_lines(&list, &exchange->front->fields);
    if (exchange->is_head)
        stream->is_answered = true;
    submit_head(stream, &list, !exchange->is_head);
    http_connection_touch(exchange->connection);
}

void http2_open_answer(struct http_exchange *exchange, const char *content_type)
{
    exchange->frames->is_open = true;
    exchange->frames->http2->open_answers++;
    http2_stream_open(exchange->frames, content_type);
}

void http2_stream_write(struct http2_stream *stream, struct slice bytes)
{
    struct http_connection *connection = stream->http2->connection;
    if (stream->is_answered)
        return;
    if (stream->out_at && stream->out_at == stream->out.len)
        drop_output(stream);
    http_front_lend(connection->front, &stream->out);
    buffer_append_slice(&stream->out, bytes);
    if (stream->out.failed) {
        stream->out.failed = false;
        (void)nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_INTERNAL_ERROR);
    }
    count_stream_out(stream);
    if (stream->is_deferred)
        (void)nghttp2_session_resume_data(stream->http2->session, stream->id);
    stream->is_deferred = false;
    http_connection_touch(connection);
}

void http2_stream_end(struct http2_stream *stream)
{
    if (stream->is_answered)
        return;
    stream->is_answered = true;
    if (stream->is_deferred)
        (void)nghttp2_session_resume_data(stream->http2->session, stream->id);
    stream->is_deferred = false;
    http_connection_touch(stream->http2->connection);
}

void http2_write(struct http_exchange *exchange, struct slice text)
{
    http2_stream_write(exchange->frames, text);
}

void http2_close(struct http_exchange *exchange)
{
    struct http2_stream *stream = exchange->frames;
    stream->http2->open_answers -= stream->is_open;
    stream->is_open = false;
    http2_stream_end(stream);
    exchange->answered = true;
    release(stream);
}

size_t http2_unsent_of(const struct http_exchange *exchange)
{
    const struct http2_stream *stream = exchange->frames;
    return exchange->connection->socket.writing || stream->is_stalled
               ? SIZE_MAX
               : stream->out.len - stream->out_at;
}

/* ---- frames ---- */

void http2_stream_note_frame(struct http2_stream *stream, const nghttp2_frame *frame)
{
    struct http_connection *connection = stream->http2->connection;
    if (frame->hd.type == NGHTTP2_DATA) {
        stream->framed += frame->hd.length;
        stream->http2->framed += frame->hd.length + 1;
        stream->since_ms = http_front_now_ms(connection->front);
    }
    if (stream->leases.cap)
        http_lease_frame(connection, &stream->leases, stream->framed,
                         connection->unsent.out_at + connection->socket.out.len + FRAME_HEAD_BYTES +
                             frame->hd.length);
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) || stream->is_finished)
        return;
    stream->is_finished = true;
    if (!stream->is_whole) /* the rest of the request is not wanted */
        (void)nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_NO_ERROR);
}
