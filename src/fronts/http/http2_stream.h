/*
 * http2_stream: a stream of an HTTP/2 connection: one request and its answer.
 *
 * The request is stored as the text that it would be in HTTP/1.1, head and body in one piece, so
 * that the same checks read it (request.h). The answer waits here until flow control lets it into
 * frames. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_HTTP2_STREAM_H
#define TARRY_HTTP_HTTP2_STREAM_H

#include "http/connection_state.h"
#include "http/http2_peer.h"

#include <nghttp2/nghttp2.h>

enum {
    HTTP2_STREAMS_MAX = 256,
    HTTP2_FIELDS_BYTES_MAX = 64 * 1024 /* of one header block; more ends the connection */
};

/* The header block that is being received; blocks of a connection are never interleaved. */
struct http2_block {
    struct buffer method, path, authority, host, fields;
    size_t bytes; /* of all fields, as HPACK counts them */
};

/* The state of a connection that speaks HTTP/2. */
struct http2 {
    struct http_connection *connection;
    nghttp2_session *session;
    struct list streams; /* all, the oldest first */
    struct list ready; /* those whose request, or its head, is to be handled, in order of arrival */
    struct http2_stream *current; /* the stream whose request is being handled, or NULL */
    struct http2_block block;
    struct http2_flood flood;
    struct http2_closed done, reset; /* streams that the peer has ended; those reset from here */
    int32_t last_id;                 /* of the newest stream */
    size_t body_bytes;     /* received bytes of bodies whose window is not given back yet */
    uint64_t framed;       /* bytes of DATA in frames so far */
    uint64_t framed_seen;  /* the same when the phase was last chosen */
    uint32_t open_answers; /* answers that stay open */
    uint32_t stream_count, call_count;
    uint32_t out_count;        /* streams with a part of an answer that is not in frames */
    uint32_t incomplete_count; /* requests that have not arrived, without those of calls */
    int64_t checked_ms;
    uint32_t hostile;     /* error code with which the connection ends, or 0 */
    bool is_block_open;   /* in the middle of a header block */
    bool awaits_pong;     /* a PING is not answered yet */
    bool is_draining;     /* the first GOAWAY is sent */
    bool is_last_sent;    /* and the second one */
    bool shares_frame;    /* its frame is in front->frame_at */
    bool has_sent_goaway; /* a GOAWAY without return is sent */
};

struct http2_stream {
    struct http2 *http2;
    int32_t id;
    struct list node;               /* in http2->streams */
    struct list ready;              /* in http2->ready, or unlinked */
    struct http_exchange *exchange; /* or NULL */
    struct http2_call *call;        /* see http2.h; or NULL */
    char *in;                       /* the request, or NULL; counted in the budget */
    size_t in_len, in_cap, head_bytes;
    uint64_t body_bytes_max; /* UINT64_MAX before the head is handled */
    struct buffer out;       /* of the body of the answer, from out_at on not in frames yet */
    size_t out_at, out_counted;
    uint64_t framed; /* bytes of the body in frames */
    struct buffer leases, trailers;
    int64_t since_ms;   /* of its head; later of the last progress of its answer */
    bool is_whole;      /* the request has arrived */
    bool is_starved;    /* the budget had no memory for its body */
    bool is_begun;      /* its request has been handed to its handler, or refused */
    bool is_answered;   /* its answer is complete in `out` */
    bool is_finished;   /* and in frames */
    bool is_incomplete; /* counted in http2->incomplete_count */
    bool has_out;       /* counted in http2->out_count */
    bool is_open;       /* counted in http2->open_answers */
    bool is_counted;    /* among the exchanges of the connection */
    bool is_deferred;   /* nghttp2 waits for more of the answer */
    bool is_stalled;    /* its window has left a part of the answer behind */
};

/* Creates a stream for a request that begins. Returns NULL if out of memory. */
struct http2_stream *http2_stream_new(struct http2 *http2, int32_t id);
/* Frees a stream that has ended, or whose connection closes: its exchange loses its client, and
 * jobs that are not in frames return to the queue. */
void http2_stream_free(struct http2_stream *stream);

/* Adds a field of the header block. Returns false if the block is larger than
 * HTTP2_FIELDS_BYTES_MAX. */
bool http2_block_take(struct http2 *http2, struct slice name, struct slice value);
/* Ends the block, for a stream, or for none (NULL). Returns false if out of memory. */
bool http2_block_end(struct http2 *http2, struct http2_stream *stream);

/* Adds a part of the body. If there is no memory for it, the request will be refused. */
void http2_stream_take(struct http2_stream *stream, const uint8_t *bytes, size_t len);
/* Notes that no more of the request is waited for. */
void http2_stream_end_input(struct http2_stream *stream);
/* Frees the memory of the request. */
void http2_stream_drop_input(struct http2_stream *stream);
/* Puts the stream among those whose requests are to be handled. */
void http2_stream_make_ready(struct http2_stream *stream);

/* Notes a frame of the answer that is about to be appended to the output of the connection. */
void http2_stream_note_frame(struct http2_stream *stream, const nghttp2_frame *frame);

/* ---- the wire's answers (wire.h) ---- */

void http2_add(struct http_exchange *exchange);
void http2_answer(struct http_exchange *exchange, uint16_t status, const char *content_type);
void http2_proceed(struct http_exchange *exchange);
void http2_open_answer(struct http_exchange *exchange, const char *content_type);
void http2_write(struct http_exchange *exchange, struct slice text);
void http2_close(struct http_exchange *exchange);
size_t http2_unsent_of(const struct http_exchange *exchange);

/* Appends to the answer, and lets nghttp2 fetch it. */
void http2_stream_write(struct http2_stream *stream, struct slice bytes);
/* Ends the answer after what was written. */
void http2_stream_end(struct http2_stream *stream);
/* Sends the head of an answer whose body follows. Fields are in the front's `fields`. */
void http2_stream_open(struct http2_stream *stream, const char *content_type);

#endif
