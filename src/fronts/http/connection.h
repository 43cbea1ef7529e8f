/*
 * connection: a socket, its exchanges in order, and what happens next on it. Bytes of an incomplete
 * request are its input (input.h), bytes to be sent its output (output.h), and its timeout is that
 * of its phase (phase.h).
 *
 * A connection is not changed in the middle of an event. It is put on the front's dirty list; at
 * the end of the loop iteration its output is written and its next step is decided.
 *
 * In:  all connections read into one buffer of the front, where requests are parsed. A connection
 *      stores only the rest of an incomplete request. So a connection that waits for an answer
 *      holds no input buffer.
 * Out: the answers of a loop iteration are collected per connection and written at its end with one
 *      call. The rest that the socket does not take is written later.
 */
#ifndef TARRY_HTTP_CONNECTION_H
#define TARRY_HTTP_CONNECTION_H

#include "http/exchange.h"
#include "http/quota.h"

struct http_channel;
struct http_writing;

struct http_connection {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;          /* on a TCP listener */
        uv_pipe_t unix_socket; /* on a unix socket */
    };
    struct http_front *front;
    struct http_listener *listener; /* the listener that accepted it */
    struct peer peer;               /* the client, or the proxy in front of it */
    struct http_gate gate;
    struct http_quota quota;
    struct list node;      /* in front->connections */
    struct list dirty;     /* in front->dirty, or unlinked */
    struct list timed;     /* in front->timed[phase], or unlinked */
    struct list long_line; /* in front->long_line, or unlinked */
    struct list put_off;   /* in front->put_off, or unlinked */
    int64_t until_ms;
    int64_t pause_ms; /* longest recent pause before a request, up to HTTP_RECENT_MS */
    enum http_phase phase;
    bool is_reading, is_blocked, is_closing, lingers, is_lingering, saw_end, is_cut;
    bool is_used;         /* its first request has begun to arrive */
    bool is_heavy;        /* its request waits for a loop iteration with enough time */
    bool is_crowd;        /* above the connection limit: accepted only to be refused */
    bool awaits_proxy;    /* expects the header of a proxy first */
    bool is_greeting;     /* expects a proxy header or a handshake first; counted by the front */
    bool is_put_off;      /* its handshake is queued */
    bool may_shake;       /* it has reached the front of that queue */
    bool peer_ended;      /* the peer sends no more and may be gone */
    bool is_starved;      /* the budget had no memory for the bytes of the last read */
    uint16_t cors_origin; /* origin of the page that made the last request (cors.h), or 0 */
    struct http_channel *channel; /* TLS of the connection; NULL on a plain listener */
    uint32_t exchange_count;
    uint32_t weight;     /* sum of the weights of its exchanges */
    uint32_t wait_count; /* takes among them that may wait */
    uint32_t pauses;     /* value of front->pauses at the last liveness check */
    struct http_exchange *first, *last;
    char *in; /* bytes of an incomplete request, or NULL */
    size_t in_len, in_cap;
    struct http_framing framing;
    const struct http_route
        *refuser; /* route in whose format the current request is refused; NULL: as a problem */
    struct buffer out;
    size_t out_counted;           /* bytes of `out` that the budget counts */
    uint64_t out_at;              /* position of its first byte in the stream of answers */
    struct buffer unsent;         /* leases in answers that are not written yet */
    struct http_writing *writing; /* rest of a write that the socket did not take, or NULL */
    size_t write_left;            /* unwritten bytes at the last check in phase WRITE */
};

/* Schedules the connection for the end of this loop iteration. */
static inline void http_connection_touch(struct http_connection *connection)
{
    if (connection->is_cut || !list_is_empty(&connection->dirty))
        return;
    if (list_is_empty(&connection->front->dirty))
        reactor_turn_again(connection->front->reactor);
    list_add_last(&connection->front->dirty, &connection->dirty);
}

/* Creates a connection for the accepted `fd` and takes ownership of it. */
void http_connection_enter(struct http_listener *listener, int fd, const struct peer *peer);

/* The functions below handle all connections of a front and are called by it. */

/* Shortens the running timeouts to the changed options of the front. */
void http_connections_hurry(struct http_front *front);
/* Closes connections whose timeout has expired, or checks whether they are alive. */
void http_connections_expire(struct http_front *front);
/* Writes the output at the end of a loop iteration. Returns true if there is more to do
 * immediately. */
bool http_connections_flush(struct http_front *front);
/* Drains the front: each connection ends after the answer to its current or next request.
 * Connections without a recent request are closed. */
void http_connections_drain(struct http_front *front);
/* Closes all connections immediately: cancels waiting takes; other exchanges lose their
 * connection. */
void http_connections_cut(struct http_front *front);

#endif
