/*
 * http2_call: a call that streams in both directions, for rooms above: its handler runs when the
 * head of the request has arrived (http_route.takes_frames), receives DATA by callbacks, and sends
 * until it ends the call or the call is closed.
 *
 * Sending never blocks: bytes wait here until flow control lets them into frames, see http2_unsent.
 * Receiving is limited by the window of the stream, which grows by http2_consumed only.
 *
 * Leases noted with bytes that were not written return to the queue without counting an attempt. A
 * call counts as a waiting take until it ends. A client that does not read for the idle timeout
 * loses its call. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_HTTP2_CALL_H
#define TARRY_HTTP_HTTP2_CALL_H

#include "http/exchange.h"

struct http2;
struct http2_call;

/* The callbacks of a call. NULL is allowed for on_writable, on_drain and on_revoked. */
struct http2_receiver {
    /* Bytes of DATA, split anywhere, valid during the call. */
    void (*on_data)(void *ctx, struct slice bytes);
    /* The client sends no more. */
    void (*on_end)(void *ctx);
    /* All bytes that were sent are in frames. */
    void (*on_writable)(void *ctx);
    /* The server shuts down: end the call soon. */
    void (*on_drain)(void *ctx);
    /* The caller is no longer valid: end the call. NULL: the call is reset. */
    void (*on_revoked)(void *ctx);
    /* The last callback: the call is invalid. The client has received at least the first `written`
     * bytes, unless its machine lost them. `is_whole`: that is all, with the trailers. */
    void (*on_close)(void *ctx, uint64_t written, bool is_whole);
};

/* ---- for handlers ---- */

/* Opens the answer: sends its head with the fields set by http_answer_field. Returns NULL if there
 * is no memory; then the call has been answered, and no callback follows. */
struct http2_call *http2_open(struct http_exchange *exchange, struct access_caller *caller,
                              const char *content_type, const struct http2_receiver *receiver,
                              void *ctx);
/* Sends bytes. Returns their end, counted from the first byte that was sent. If there is no memory,
 * the call is reset later. */
uint64_t http2_send(struct http2_call *call, struct slice bytes);
/* Records the leases in the bytes of the next http2_send. Returns false if out of memory. */
bool http2_note_leases(struct http2_call *call, const struct queue_job *jobs, size_t count,
                       size_t bytes);
/* Returns how many bytes are not in frames yet. */
size_t http2_unsent(const struct http2_call *call);
/* Lets the client send as many bytes more. */
void http2_consumed(struct http2_call *call, size_t bytes);
/* Adds a field that follows the last byte. */
void http2_trailer(struct http2_call *call, const char *name, struct slice value);
/* Ends the answer after what was sent. The exchange ends; on_close follows later. */
void http2_end(struct http2_call *call);
/* Resets the stream with an error code of HTTP/2. Calls on_close. */
void http2_reset(struct http2_call *call, uint32_t code);
/* Returns the exchange, for calls of the queue; NULL after http2_end. */
struct http_exchange *http2_exchange(const struct http2_call *call);

/* ---- for this room ---- */

void http2_call_note_data(struct http2_call *call, const void *bytes, size_t len);
void http2_call_note_end(struct http2_call *call);
void http2_call_note_drain(struct http2_call *call);
/* Notes that everything framed so far has been written. */
void http2_call_note_written(struct http2_call *call);
/* Ends the call because its caller is no longer valid. */
void http2_call_revoke(struct http2_call *call);
/* Frees the call and notifies its handler. `is_lost`: its connection closes. */
void http2_call_close(struct http2_call *call, bool is_lost);
/* Runs the callbacks that are due. */
void http2_calls_deliver(struct http2 *http2);

#endif
