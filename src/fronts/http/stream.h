/*
 * stream: an answer that stays open: server-sent events (text/event-stream) to one client.
 *
 * The exchange of the call is its last on its connection: what the client sends behind it is not
 * read, and the connection ends with the stream. What was asked before it on the same connection is
 * answered first (HTTP_ANSWER_STREAM in route.h).
 *
 * Sending never blocks and never fails: events are gathered per stream, and leave at the end of the
 * turn. What the client does not take waits, up to HTTP_STREAM_BYTES_MAX; then the oldest events are
 * lost, and the next thing the client hears is `event: gap` with `data: {"lost":N}`. A stream on which
 * nothing is sent gets a comment every 15 s, so that whoever stands between does not end it.
 *
 * It ends when the client goes (or says that it sends no more), at the front's drain (the client is told
 * `retry: 1000`), within a second after its caller is nobody any more, or when its owner ends it. The
 * owner hears of each by `on_end`, once; the stream is no more then.
 *
 * A caller has a share of a front's streams, and some are kept for those who may see all topics: so a reader of one topic does not
 * keep an operator from the console.
 *
 * Memory: HTTP_STREAM_BYTES_MAX of the budget for each, as long as it is open. One thread: the
 * reactor's; `on_end` may come within http_front_free, when the reactor has stopped.
 */
#ifndef TARRY_HTTP_STREAM_H
#define TARRY_HTTP_STREAM_H

#include "http/exchange.h"

enum {
    HTTP_STREAMS_MAX = 64, /* of a front, at a time */
    HTTP_STREAMS_OF_CALLER_MAX =
        16, /* of these, for one caller; without a name, for its address, if that is not this machine's */
    HTTP_STREAMS_RESERVED = 8, /* of these, for callers of all topics alone */
    HTTP_STREAM_BYTES_MAX = 64 * 1024
};

struct http_stream;
typedef void http_stream_ended(void *ctx);

/* ---- for handlers ---- */

/*
 * Answers the call with a stream. NULL: there is none, and the call is answered all the same: it was
 * refused (503 too_many_streams, too_much_memory), or wanted the head only, or its client is about to
 * go; `on_end` is not called then.
 */
struct http_stream *http_stream_begin(struct http_exchange *exchange, struct access_caller *caller,
                                      http_stream_ended *on_end, void *ctx);
/* `event` is a word, `json` one line; both are copied. One that is larger than all that may wait is
 * lost. */
void http_stream_send(struct http_stream *stream, const char *event, struct slice json);
/* What was sent still leaves. Calls `on_end`. */
void http_stream_end(struct http_stream *stream);
/* Whose it is, for what he may see; good as long as the stream. */
const struct access_caller *http_stream_caller(const struct http_stream *stream);

/* ---- for the room ---- */

/* The connection is about to write: what waits goes with it, in one chunk. */
void http_stream_flush(struct http_stream *stream);
/* The front drains: the client is told to come again, here or elsewhere. */
void http_stream_drain(struct http_stream *stream);
/* The connection goes: nothing more leaves. */
void http_stream_cut(struct http_stream *stream);
/* Streams of those who are nobody any more end. */
void http_streams_end_unheld(struct http_front *front);
/* Streams that had nothing for 15 s get a comment: the front's alarm for them. */
void http_streams_ping(void *front);

#endif
