/* connection_state: the data of a connection, and what schedules its next step, for this room. */
#ifndef TARRY_HTTP_CONNECTION_STATE_H
#define TARRY_HTTP_CONNECTION_STATE_H

#include "http/exchange.h"
#include "http/quota.h"
#include "http/wire.h"

struct http_channel;
struct http_writing;

/* The socket of a connection, and the bytes to be written to it. */
struct http_socket {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;          /* on a TCP listener */
        uv_pipe_t unix_socket; /* on a unix socket */
    };
    struct http_channel *channel; /* TLS of the connection; NULL on a plain listener */
    bool awaits_proxy;            /* expects the header of a proxy first */
    bool is_greeting; /* expects a proxy header or a handshake first; counted by the front */
    bool is_put_off;  /* its handshake is queued */
    bool may_shake;   /* it has reached the front of that queue */
    bool is_reading, lingers, is_lingering, saw_end;
    bool peer_ended;     /* the peer sends no more and may be gone */
    struct list put_off; /* in front->put_off, or unlinked */
    struct list sated;   /* in front->sated, or unlinked */
    uint32_t pauses;     /* value of front->pauses at the last liveness check */
    struct buffer out;
    size_t out_counted;           /* bytes of `out` that the budget counts */
    struct http_writing *writing; /* rest of a write that the socket did not take, or NULL */
    size_t write_left;            /* unwritten bytes at the last check in phase WRITE */
};

/* The bytes of an incomplete request, and its parsed parts. */
struct http_parser {
    char *in; /* or NULL */
    size_t in_len, in_cap;
    struct http_framing framing;
    const struct http_route
        *refuser; /* route in whose format the current request is refused; NULL: as a problem */
    uint16_t cors_origin; /* origin of the page that made the last request (site.h), or 0 */
    bool is_blocked;      /* requests are held back */
    bool is_heavy;        /* its request waits for a loop iteration with enough time */
    bool is_starved;      /* the budget had no memory for the bytes of the last read */
};

/* The leases in answers that are not written yet (unsent.h). */
struct http_unsent {
    struct buffer leases;
    uint64_t out_at; /* position of the first byte of `out` in the stream of answers */
};

struct http_connection {
    struct http_socket socket;
    struct http_parser parser;
    struct http_unsent unsent;
    const struct http_wire *wire;
    struct http2 *http2; /* NULL: the connection speaks HTTP/1.1 */
    struct http_front *front;
    struct http_listener *listener; /* the listener that accepted it */
    struct peer peer;               /* the client, or the proxy in front of it */
    struct http_gate gate;
    struct http_quota quota;
    struct list node;      /* in front->connections */
    struct list dirty;     /* in front->dirty, or unlinked */
    struct list timed;     /* in front->timed[phase], or unlinked */
    struct list long_line; /* in front->long_line, or unlinked */
    int64_t until_ms;
    int64_t pause_ms; /* longest recent pause before a request, up to HTTP_RECENT_MS */
    enum http_phase phase;
    bool is_closing, is_cut;
    bool has_wire;  /* its first bytes have shown what it speaks */
    bool is_used;   /* its first request has begun to arrive */
    bool is_excess; /* above the connection limit: accepted only to be refused */
    uint32_t exchange_count;
    uint32_t weight;        /* sum of the weights of its exchanges */
    uint32_t wait_count;    /* takes among them that may wait */
    uint32_t partial_count; /* calls among them that hold back later requests */
    struct http_exchange *first, *last;
    int64_t pushed_ms; /* when its pushes were last recorded, see api_pushers_note */
};

/* Schedules the connection for the end of this loop iteration. */
static inline void http_connection_touch(struct http_connection *connection)
{
    if (connection->is_cut || !list_is_empty(&connection->dirty))
        return;
    if (list_is_empty(&connection->front->dirty))
        reactor_iterate_again(connection->front->reactor);
    list_add_last(&connection->front->dirty, &connection->dirty);
}

/* Counts the output to be written in the budget immediately, so that many answers in one loop
 * iteration do not exceed it. */
static inline void http_connection_count_output(struct http_connection *connection)
{
    if (connection->socket.out.cap > BUDGET_SMALL_BYTES)
        budget_recount(&connection->front->shared->budget, &connection->socket.out_counted,
                       connection->socket.out.cap);
}

#endif
