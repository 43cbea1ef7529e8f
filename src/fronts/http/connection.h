/*
 * connection: a socket, the exchanges under way on it in order, and how it goes on with them. Bytes that
 * wait for the rest of a request are its input (input.h), those that go its output (output.h); how long
 * it is waited for is its phase (phase.h).
 *
 * A connection does nothing to itself in the middle of things: it is touched, which puts it on the
 * front's dirty list, and at the end of the turn what is to be written is written, and how to go on
 * is decided.
 *
 * In:  all connections read into one buffer of the front and requests are parsed there; only what is
 *      left of a request that is not whole yet is kept by its connection. So a connection that waits
 *      for an answer costs no buffer.
 * Out: the answers of a turn are gathered per connection and written at its end with one call; what
 *      the socket does not take follows when it can.
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
        uv_tcp_t tcp;          /* of a listener on an address */
        uv_pipe_t unix_socket; /* of a unix socket */
    };
    struct http_front *front;
    struct http_listener *listener; /* where it came in */
    struct peer peer;               /* the client, or the proxy in front of it */
    struct http_gate gate;
    struct http_quota quota;
    struct list node;      /* in front->connections */
    struct list dirty;     /* in front->dirty, or alone */
    struct list timed;     /* in front->timed[phase], or alone */
    struct list long_line; /* in front->long_line, or alone */
    struct list put_off;   /* in front->put_off, or alone */
    int64_t until_ms;
    enum http_phase phase;
    bool is_reading, is_blocked, is_closing, lingers, is_lingering, saw_end, is_cut;
    bool is_heavy;     /* its request waits for a turn with time */
    bool is_crowd;     /* beyond the limit: here only to be told so */
    bool awaits_proxy; /* the header of a proxy comes first */
    bool is_greeting;  /* the header of a proxy or a handshake comes first; counted by the front */
    bool is_put_off;   /* its handshake waits in line */
    bool may_shake;    /* it has been at the front of that line */
    bool peer_ended;   /* it sends no more, and may be gone */
    bool is_starved;   /* the last read found no memory for its bytes in the budget */
    uint16_t cors_origin;         /* of the page that made the last request, see cors.h; 0: none */
    struct http_channel *channel; /* of a listener with TLS, else NULL */
    uint32_t exchange_count;
    uint32_t weight;     /* of the exchanges under way */
    uint32_t wait_count; /* takes among them that may wait */
    uint32_t pauses;     /* of the front, when this one was last asked whether it stands */
    struct http_exchange *first, *last;
    char *in; /* what came and is not a whole request yet; NULL: nothing */
    size_t in_len, in_cap;
    struct http_framing framing;
    const struct http_route
        *refuser; /* of the request under way: in whose form it is refused; NULL: a problem */
    struct buffer out;
    size_t out_counted;           /* of `out`, in the budget */
    uint64_t out_at;              /* of its first byte, in the stream of answers */
    struct buffer unsent;         /* leases in answers that are not written yet */
    struct http_writing *writing; /* what the socket did not take at once */
    size_t write_left;            /* at the last look, in phase WRITE */
};

/* Has its turn at the end of this one. */
static inline void http_connection_touch(struct http_connection *connection)
{
    if (connection->is_cut || !list_is_empty(&connection->dirty))
        return;
    if (list_is_empty(&connection->front->dirty))
        reactor_turn_again(connection->front->reactor);
    list_add_last(&connection->front->dirty, &connection->dirty);
}

/* `fd` has been accepted, and is the front's from now on. */
void http_connection_enter(struct http_listener *listener, int fd, const struct peer *peer);

/* All connections of a front; the front calls these. */

/* The times of the front's options are others: who would wait longer than that waits no longer. */
void http_connections_hurry(struct http_front *front);
/* Those whose time is over are given up, or asked whether they still stand. */
void http_connections_expire(struct http_front *front);
/* End of a turn: writes what there is to write. True when there is more to do at once. */
bool http_connections_flush(struct http_front *front);
/* Each ends once its request is answered: the one under way, or the one that comes; who has not asked
 * lately is not waited for. The front is draining. */
void http_connections_drain(struct http_front *front);
/* At once: takes that wait are cancelled, other exchanges lose their connection. */
void http_connections_cut(struct http_front *front);

#endif
