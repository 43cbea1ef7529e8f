/* HTTP/1.1 and 1.0 on a connection: requests one after the other, answers in their order. */
#include "http/connection.h"
#include "http/dispatch.h"
#include "http/input.h"
#include "http/phase.h"
#include "http/site.h"
#include "http/state.h"
#include "http/stream.h"
#include "http/unsent.h"

#include "base/buffer_put.h"
#include "base/timestamp.h"

#include <assert.h>
#include <stdio.h>

enum {
    OUT_BYTES_PAUSE = 1024 * 1024, /* above it no more requests of the connection are read */
    CHUNK_HEAD_BYTES = 24
};

/* ---- requests ---- */

/* Returns whether no more requests can be handled now. If memory `is_short`, requests are handled
 * one at a time. */
static inline bool input_is_full(const struct http_connection *connection, bool is_short)
{
    return connection->exchange_count >= HTTP_PENDING_MAX || connection->partial_count ||
           connection->socket.out.len >= OUT_BYTES_PAUSE || connection->socket.writing ||
           (is_short && (connection->exchange_count || connection->socket.out.len));
}

/* Returns whether the input is half a blank line. Blank lines before a request, complete or not, do
 * not begin one; otherwise they would keep an idle connection open. */
static bool is_half_blank_line(const struct http_connection *connection)
{
    return connection->parser.in_len == 1 && connection->parser.in[0] == '\r';
}

static enum http_phase input_phase(const struct http_connection *connection)
{
    if (connection->parser.framing.head_bytes)
        return HTTP_PHASE_BODY;
    if (connection->parser.in_len && !is_half_blank_line(connection))
        return HTTP_PHASE_HEAD;
    return connection->exchange_count ? HTTP_PHASE_NONE : HTTP_PHASE_IDLE;
}

/* Handles the complete requests in the input as far as there is room. `bytes` is the shared buffer
 * or the connection's own. */
static enum http_fed http1_feed(struct http_connection *connection, char *bytes, size_t len,
                                struct http_fault *fault)
{
    size_t at = 0;
    uint32_t begun = 0;
    bool is_whole = false, is_short = http_budget_is_spent(connection->front);
    enum http_dispatched done = HTTP_DISPATCH_BLANK;
    connection->parser.is_blocked = false;
    while (at < len && !connection->is_closing && done <= HTTP_DISPATCH_DONE) {
        connection->parser.is_blocked = input_is_full(connection, is_short);
        if (!connection->parser.is_blocked &&
            http_dispatch_has_had_share(connection->front, begun)) {
            connection->parser.is_blocked = true;
            http_connection_touch(connection);
        }
        if (connection->parser.is_blocked)
            break;
        begun++;
        connection->front->iteration_requests++;
        done = http_dispatch(connection, bytes, &len, &at, fault);
        if (done == HTTP_DISPATCH_MORE)
            break;
        is_whole |= done == HTTP_DISPATCH_DONE;
    }
    if (done == HTTP_DISPATCH_REFUSED)
        return HTTP_FED_REFUSED;
    if (done == HTTP_DISPATCH_FAILED)
        return HTTP_FED_FAILED;
    if (connection->is_closing) {
        http_input_drop(connection);
        http_phase_enter(connection, HTTP_PHASE_NONE);
        return HTTP_FED_CLOSING;
    }
    connection->parser.is_blocked |= done == HTTP_DISPATCH_HELD;
    if (!http_input_keep(connection, at < len ? bytes + at : NULL, len - at))
        return HTTP_FED_FAILED;
    if (connection->parser.is_blocked || input_is_full(connection, is_short)) {
        connection->parser.is_blocked = true;
        if (!connection->socket.writing)
            http_phase_enter(connection, HTTP_PHASE_HELD);
        return HTTP_FED_HELD;
    }
    /* The timeout of the next message starts after a complete one. */
    enum http_phase phase = input_phase(connection);
    if (is_whole)
        http_phase_begin(connection, phase);
    else
        http_phase_enter(connection, phase);
    return HTTP_FED;
}

static enum http_fed http1_resume(struct http_connection *connection, struct http_fault *fault)
{
    if (!connection->parser.is_blocked ||
        input_is_full(connection, http_budget_is_spent(connection->front)))
        return HTTP_FED_NONE;
    if (connection->parser.is_heavy && connection->front->iteration_heavy &&
        reactor_is_late(connection->front->reactor)) { /* do not parse it again now */
        http_connection_touch(connection);
        return HTTP_FED_NONE;
    }
    connection->parser.is_heavy = false;
    return http1_feed(connection, connection->parser.in, connection->parser.in_len, fault);
}

/* ---- open answers and waiting takes ---- */

/* Returns the stream of the connection, whose exchange is then its only one, or NULL. */
static struct http_stream *stream_of(const struct http_connection *connection)
{
    return connection->first ? connection->first->stream : NULL;
}

static void http1_end_waits(struct http_connection *connection)
{
    if (stream_of(connection))
        http_stream_end(stream_of(connection));
    for (struct http_exchange *exchange = connection->first, *next; exchange; exchange = next) {
        next = exchange->next;
        if (exchange->ends)
            ends_end(exchange->ends);
        if (!exchange->waits || !exchange->waiter)
            continue;
        waiter_cancel(connection->front->waiters, exchange->waiter);
        exchange->waiter = 0;
        http_answer_no_jobs(exchange);
    }
}

static enum http_fed http1_drain(struct http_connection *connection)
{
    if (!stream_of(connection))
        return HTTP_FED_NONE;
    if (connection->socket.writing) /* its client does not read */
        return HTTP_FED_FAILED;
    http_stream_drain(stream_of(connection));
    return HTTP_FED;
}

static void http1_cut(struct http_connection *connection)
{
    if (stream_of(connection))
        http_stream_cut(stream_of(connection));
    for (struct http_exchange *exchange = connection->first, *next; exchange; exchange = next) {
        next = exchange->next;
        http_exchange_orphan(exchange);
    }
    connection->first = connection->last = NULL;
}

static void http1_flush(struct http_connection *connection)
{
    if (!connection->socket.writing && stream_of(connection))
        http_stream_flush(stream_of(connection));
}

static struct http_exchange *http1_next(const struct http_connection *connection,
                                        const struct http_exchange *exchange)
{
    return exchange ? exchange->next : connection->first;
}

/* ---- answers, in the order of the requests ---- */

static void http1_add(struct http_exchange *exchange)
{
    struct http_connection *connection = exchange->connection;
    if (connection->last)
        connection->last->next = exchange;
    else
        connection->first = exchange;
    connection->last = exchange;
}

/* Returns the buffer of this answer: the connection's output if it is next in order, else its
 * own. */
static struct buffer *answer_buffer(struct http_exchange *exchange)
{
    struct http_connection *connection = exchange->connection;
    struct buffer *out = connection->first == exchange ? &connection->socket.out : &exchange->reply;
    http_front_lend(exchange->front, out);
    return out;
}

/* Completes the answer. If it is next in order, sends it together with the answers after it that
 * are complete; else it waits and is counted in the budget. */
static void finish_answer(struct http_exchange *exchange)
{
    struct http_connection *connection = exchange->connection;
    exchange->answered = true;
    exchange->waiter = 0;
    if (connection->first != exchange) {
        exchange->bytes_counted += exchange->reply.cap;
        http_budget_add(exchange->front, exchange->reply.cap);
        return;
    }
    for (struct http_exchange *first = exchange; first && first->answered;) {
        connection->first = first->next;
        connection->exchange_count--;
        if (first->reply.len) {
            http_front_lend(first->front, &connection->socket.out);
            buffer_append_slice(&connection->socket.out, buffer_slice(&first->reply));
        }
        if (first->reply.failed)
            connection->socket.out.failed = true;
        if (first->has_leases)
            http_lease_hand_over(first,
                                 connection->socket.out.failed
                                     ? UINT64_MAX
                                     : connection->unsent.out_at + connection->socket.out.len);
        http_exchange_release(first);
        first = connection->first;
    }
    if (!connection->first)
        connection->last = NULL;
    http_connection_count_output(connection);
    http_connection_touch(connection);
}

static void http1_proceed(struct http_exchange *exchange)
{
    buffer_append_text(answer_buffer(exchange), "HTTP/1.1 100 Continue\r\n\r\n");
    finish_answer(exchange);
}

/* Writes the start of the head of an answer with JSON, up to its length. It is the same for all such answers with this
 * status in a second. */
static void write_json_head(struct http_front *front, struct buffer *out, uint16_t status)
{
    struct http_json_head *head = &front->json_head;
    const char *date = http_front_date(front);
    if (head->status != status || head->date_s != front->date_s) {
        int len = snprintf(head->text, sizeof head->text,
                           "%s%s\r\nContent-Type: %s\r\nContent-Length: ", http_status_line(status),
                           date, http_json_type);
        assert(len > 0 && (size_t)len < sizeof head->text);
        head->status = status;
        head->date_s = front->date_s;
        head->bytes = (size_t)len;
    }
    buffer_append(out, head->text, head->bytes);
}

static void write_head_start(const struct http_exchange *exchange, struct buffer *out,
                             uint16_t status, const char *content_type)
{
    buffer_append_text(out, http_status_line(status));
    buffer_append_text(out, http_front_date(exchange->front));
    if (content_type) {
        buffer_append_text(out, "\r\nContent-Type: ");
        buffer_append_text(out, content_type);
    }
}

/* Marks the answers of a server with a test clock, so that it is not mistaken for a production
 * server. */
static void write_test_clock(const struct http_clock_hooks *hooks, struct buffer *out)
{
    buffer_append_text(out, "Tarry-Test-Clock: ");
    timestamp_emit(out, clock_wall_ms_of(hooks->clock));
    buffer_append_text(out, "\r\n");
}

static void write_head_end(const struct http_exchange *exchange, struct buffer *out, bool closes)
{
    const struct http_front *front = exchange->front;
    BUFFER_PUT(out, "\r\n");
    if (front->fields.len)
        buffer_append_slice(out, buffer_slice(&front->fields));
    if (front->shared->clock)
        write_test_clock(front->shared->clock, out);
    if (front->options.cors_origins)
        http_cors_emit(exchange->connection->listener->hosts.origins, exchange->cors_origin, out);
    if (closes)
        buffer_append_text(out, "Connection: close\r\n");
    else if (exchange->is_http_1_0)
        buffer_append_text(out, "Connection: keep-alive\r\n");
    BUFFER_PUT(out, "\r\n");
}

static void http1_answer(struct http_exchange *exchange, uint16_t status, const char *content_type)
{
    struct http_front *front = exchange->front;
    bool closes = exchange->connection->is_closing && !exchange->next;
    struct buffer *out = answer_buffer(exchange);
    if (content_type == http_json_type) {
        write_json_head(front, out, status);
    } else {
        write_head_start(exchange, out, status, content_type);
        if (content_type)
            BUFFER_PUT(out, "\r\nContent-Length: ");
    }
    if (content_type)
        buffer_append_u64(out, front->body.len);
    write_head_end(exchange, out, closes);
    if (!exchange->is_head && content_type)
        buffer_append_slice(out, buffer_slice(&front->body));
    finish_answer(exchange);
}

static void http1_open(struct http_exchange *exchange, const char *content_type)
{
    struct http_connection *connection = exchange->connection;
    assert(connection->first == exchange && !exchange->next);
    struct buffer *out = answer_buffer(exchange);
    connection->is_closing = true;
    write_head_start(exchange, out, 200, content_type);
    if (!exchange->is_http_1_0)
        buffer_append_text(out, "\r\nTransfer-Encoding: chunked");
    write_head_end(exchange, out, true);
    http_connection_touch(connection);
}

/* Writes all of `text`, as a chunk if the client supports chunks. */
static void http1_write(struct http_exchange *exchange, struct slice text)
{
    struct buffer *out = &exchange->connection->socket.out;
    char head[CHUNK_HEAD_BYTES];
    http_front_lend(exchange->front, out);
    if (!exchange->is_http_1_0) {
        int len = snprintf(head, sizeof head, "%zx\r\n", text.len);
        buffer_append(out, head, (size_t)len);
    }
    buffer_append_slice(out, text);
    if (!exchange->is_http_1_0)
        buffer_append(out, "\r\n", 2);
}

static void http1_close(struct http_exchange *exchange)
{
    struct buffer *out = &exchange->connection->socket.out;
    if (!exchange->is_head && !exchange->is_http_1_0) {
        http_front_lend(exchange->front, out);
        buffer_append_text(out, "0\r\n\r\n");
    }
    finish_answer(exchange);
}

static size_t http1_unsent(const struct http_exchange *exchange)
{
    const struct http_socket *socket = &exchange->connection->socket;
    return socket->writing ? SIZE_MAX : socket->out.len;
}

const struct http_wire http1_wire = {
    .is_ordered = true,
    .feed = http1_feed,
    .resume = http1_resume,
    .end_waits = http1_end_waits,
    .drain = http1_drain,
    .cut = http1_cut,
    .flush = http1_flush,
    .next = http1_next,
    .add = http1_add,
    .answer = http1_answer,
    .proceed = http1_proceed,
    .open = http1_open,
    .write = http1_write,
    .close = http1_close,
    .unsent = http1_unsent,
};
