/*
 * stream: an answer that stays open: server-sent events (text/event-stream) to one client.
 *
 * The exchange of the call is the last on its connection: later input of the client is not read,
 * and the connection ends with the stream. Earlier requests on the connection are answered first
 * (HTTP_ANSWER_STREAM in route.h).
 *
 * Sending never blocks and never fails: events are collected per stream and written at the end of
 * the loop iteration. Events that the client does not read are buffered up to
 * HTTP_STREAM_BYTES_MAX. Then the oldest are dropped, and the client receives `event: gap` with
 * `data: {"lost":N}` next. A stream without events gets a comment every 15 s, so that no proxy
 * closes it.
 *
 * It ends when the client closes its side, when the front drains (the client receives `retry:
 * 1000`), within a second after its caller is no longer valid, or when its owner ends it. Each end
 * is reported to the owner by `on_end`, once; the stream is invalid then.
 *
 * Each caller has a limit of streams per front, and some streams are reserved for callers that may
 * see all topics, so that readers of one topic do not lock an operator out of the console. Streams
 * of events over gRPC (grpc/watch.h) take their places among the same ones.
 *
 * Memory: HTTP_STREAM_BYTES_MAX of the budget for each open stream. Runs on the reactor thread;
 * `on_end` may be called within http_front_free, when the reactor has stopped.
 */
#ifndef TARRY_HTTP_STREAM_H
#define TARRY_HTTP_STREAM_H

#include "http/exchange.h"

enum {
    HTTP_STREAMS_MAX = 64,           /* per front */
    HTTP_STREAMS_OF_CALLER_MAX = 16, /* per named caller, or else per address that is not local */
    HTTP_STREAMS_RESERVED = 8,       /* of these only for callers of all topics */
    HTTP_STREAM_BYTES_MAX = 64 * 1024
};

/* A place among the open streams of a front, whose number is limited. Zeroed: none. */
struct http_stream_place {
    struct http_front *front;    /* NULL: none */
    struct list node;            /* in front->stream_places */
    struct quota_account *payer; /* account that is charged, a reference; or NULL */
};

/* Takes a place for the stream of a call. Returns false with *fault if a limit is reached (503
 * too_many_streams, too_much_memory). */
bool http_stream_place_take(struct http_stream_place *place, const struct http_exchange *exchange,
                            const struct access_caller *caller, struct http_fault *fault);
/* Gives the place back, if there is one. */
void http_stream_place_give_back(struct http_stream_place *place);

struct http_stream;
typedef void http_stream_ended(void *ctx);

/* ---- for handlers ---- */

/* Answers the call with a stream. Returns NULL if there is no stream; then the call has been
 * answered: it was refused (503 too_many_streams, too_much_memory), it requested the head only, or
 * its client is about to close. `on_end` is not called then. */
struct http_stream *http_stream_begin(struct http_exchange *exchange, struct access_caller *caller,
                                      http_stream_ended *on_end, void *ctx);
/* Sends an event. `event` is a word, `json` one line; both are copied. An event larger than the
 * buffer limit is lost. */
void http_stream_send(struct http_stream *stream, const char *event, struct slice json);
/* Ends the stream after the events sent so far. Calls `on_end`. */
void http_stream_end(struct http_stream *stream);
/* Returns the caller of the stream, for what it may see. Valid as long as the stream. */
const struct access_caller *http_stream_caller(const struct http_stream *stream);

/* ---- for this room ---- */

/* Writes the collected events as one chunk, before the connection writes. */
void http_stream_flush(struct http_stream *stream);
/* Ends the stream because the front drains; the client is asked to reconnect. */
void http_stream_drain(struct http_stream *stream);
/* Ends the stream because the connection closes; nothing more is sent. */
void http_stream_cut(struct http_stream *stream);
/* Ends streams whose callers are no longer valid. */
void http_streams_end_unheld(struct http_front *front);
/* Sends a comment on streams that were quiet for 15 s. Called by the front's alarm. */
void http_streams_ping(void *front);

#endif
