/*
 * connector: from an endpoint to a stream that is connected: the name's addresses found, each tried in
 * turn with its share of the time left.
 *
 * One thread, the reactor's. `done` comes once, never inside a call.
 */
#ifndef TARRY_REDIS_CONNECTOR_H
#define TARRY_REDIS_CONNECTOR_H

#include "base/buffer.h"
#include "net/reactor.h"
#include "redis/url.h"

enum { REDIS_SOCKET_IN_BYTES = 16 * 1024, REDIS_NAME_BYTES = REDIS_HOST_BYTES + 10 };

struct redis_connector;

/* A stream and what must live as long as its handle does. On the heap; goes by redis_socket_close.
 */
struct redis_socket {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    void *owner; /* NULL once it is closed: callbacks of requests may still come */
    uv_connect_t connecting;
    uv_write_t writing;
    struct buffer sending; /* what `writing` writes */
    char in[REDIS_SOCKET_IN_BYTES];
};
void redis_socket_close(struct redis_socket *socket);

/* `socket` NULL: `why` says, for people, what failed. Else it is the caller's, and so is its
 * `owner`. */
typedef void redis_connector_done(void *ctx, struct redis_socket *socket, const char *why);
/* NULL: out of memory. */
struct redis_connector *redis_connector_new(struct reactor *reactor,
                                            const struct redis_endpoint *endpoint,
                                            int64_t connect_ms, redis_connector_done *done,
                                            void *ctx);
/* Any time, also in `done`. */
void redis_connector_free(struct redis_connector *connector);

/* As people write it: "host:6379", "[::1]:6379", "/path". */
void redis_endpoint_name(const struct redis_endpoint *endpoint, char out[REDIS_NAME_BYTES]);

#endif
