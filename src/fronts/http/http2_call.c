#include "http/http2_call.h"

#include "http/http2_stream.h"
#include "http/unsent.h"

#include <stdlib.h>

enum { CALL_BYTES = 1024 /* approximate memory of an open call */ };

struct http2_call {
    struct http2_stream *stream;
    const struct http2_receiver *receiver;
    void *ctx;
    struct buffer in; /* received bytes that the handler has not seen */
    uint64_t sent;    /* bytes given to http2_send */
    uint64_t written; /* of these, how many the socket has taken for sure */
    bool has_end, is_end_reported;
    bool was_full;   /* something has waited for frames since the last on_writable */
    bool is_drained; /* on_drain is due */
};

struct http2_call *http2_open(struct http_exchange *exchange, struct access_caller *caller,
                              const char *content_type, const struct http2_receiver *receiver,
                              void *ctx)
{
    struct http_fault fault;
    struct http2_stream *stream = exchange->frames;
    struct http2_call *call =
        http_budget_has(exchange->front, CALL_BYTES) ? calloc(1, sizeof *call) : NULL;
    if (!call) {
        http_budget_refuse(exchange->front, &fault);
        http_answer_fault(exchange, &fault);
        return NULL;
    }
    *call = (struct http2_call){.stream = stream, .receiver = receiver, .ctx = ctx};
    http_gate_wait(exchange, caller, CALL_BYTES);
    stream->call = call;
    stream->http2->call_count++;
    http_answer_open(exchange, content_type);
    return call;
}

struct http_exchange *http2_exchange(const struct http2_call *call)
{
    return call->stream->exchange;
}

uint64_t http2_send(struct http2_call *call, struct slice bytes)
{
    if (call->stream->is_answered)
        return call->sent;
    call->was_full = true;
    call->sent += bytes.len;
    http2_stream_write(call->stream, bytes);
    return call->sent;
}

bool http2_note_leases(struct http2_call *call, const struct queue_job *jobs, size_t count,
                       size_t bytes)
{
    return http_lease_note_frames(call->stream->http2->connection->front, &call->stream->leases,
                                  jobs, count, call->sent + bytes);
}

size_t http2_unsent(const struct http2_call *call)
{
    return call->stream->out.len - call->stream->out_at;
}

void http2_consumed(struct http2_call *call, size_t bytes)
{
    struct http2 *http2 = call->stream->http2;
    (void)nghttp2_session_consume_stream(http2->session, call->stream->id, bytes);
    http_connection_touch(http2->connection);
}

void http2_trailer(struct http2_call *call, const char *name, struct slice value)
{
    struct buffer *trailers = &call->stream->trailers;
    http_front_lend(call->stream->http2->connection->front, trailers);
    buffer_append_text(trailers, name);
    buffer_append(trailers, ": ", 2);
    buffer_append_slice(trailers, value);
    buffer_append(trailers, "\r\n", 2);
}

void http2_end(struct http2_call *call)
{
    if (call->stream->exchange)
        http_answer_close(call->stream->exchange);
}

void http2_reset(struct http2_call *call, uint32_t code)
{
    struct http2_stream *stream = call->stream;
    (void)nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id, code);
    http_connection_touch(stream->http2->connection);
    http2_call_close(call, false);
}

/* ---- for this room ---- */

void http2_call_note_data(struct http2_call *call, const void *bytes, size_t len)
{
    http_front_lend(call->stream->http2->connection->front, &call->in);
    buffer_append(&call->in, bytes, len);
}

void http2_call_note_end(struct http2_call *call)
{
    call->has_end = true;
}

void http2_call_note_drain(struct http2_call *call)
{
    call->is_drained = true;
}

void http2_call_note_written(struct http2_call *call)
{
    call->written = call->stream->framed;
}

void http2_call_revoke(struct http2_call *call)
{
    if (call->receiver->on_revoked)
        call->receiver->on_revoked(call->ctx);
    else
        http2_reset(call, NGHTTP2_CANCEL);
}

void http2_call_close(struct http2_call *call, bool is_lost)
{
    struct http2_stream *stream = call->stream;
    const struct http2_receiver *receiver = call->receiver;
    void *ctx = call->ctx;
    uint64_t written = is_lost ? call->written : stream->framed;
    bool is_whole = stream->is_finished && !is_lost;
    stream->call = NULL;
    if (stream->exchange)
        stream->exchange->answered = true; /* no reply of the queue will end it */
    stream->http2->call_count--;
    http_front_give_back(stream->http2->connection->front, &call->in);
    free(call);
    receiver->on_close(ctx, written, is_whole);
}

/* Runs the due callbacks of one call, any of which may end it. */
static void deliver(struct http2_stream *stream)
{
    struct http2_call *call = stream->call;
    if (call->in.failed) {
        http2_reset(call, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (call->in.len) {
        struct buffer in = call->in;
        call->in = (struct buffer){0};
        call->receiver->on_data(call->ctx, buffer_slice(&in));
        http_front_give_back(stream->http2->connection->front, &in);
    }
    if (stream->call == call && call->has_end && !call->is_end_reported) {
        call->is_end_reported = true;
        call->receiver->on_end(call->ctx);
    }
    if (stream->call == call && call->was_full && !http2_unsent(call)) {
        call->was_full = false;
        if (call->receiver->on_writable)
            call->receiver->on_writable(call->ctx);
    }
    if (stream->call == call && call->is_drained) {
        call->is_drained = false;
        if (call->receiver->on_drain)
            call->receiver->on_drain(call->ctx);
    }
}

void http2_calls_deliver(struct http2 *http2)
{
    if (!http2->call_count)
        return;
    for (struct list *node = http2->streams.next, *next; node != &http2->streams; node = next) {
        struct http2_stream *stream = list_entry(node, struct http2_stream, node);
        next = node->next;
        if (stream->call)
            deliver(stream);
    }
}
