/*
 * connection: one pipelined connection to one Redis server.
 *
 * libuv drives the socket; hiredis parses the replies. Commands are sent in the order in which they
 * were appended, many per write: those appended in one loop iteration are written at its end.
 * Replies come back in the same order; the owner of the connection keeps track of the command that
 * each one answers.
 *
 * Runs on the reactor's thread only. No callback runs inside a call. `down` runs once, at the end
 * of a loop iteration. After it no further callback runs, outstanding replies are lost, and the
 * owner frees the connection. This module does not detect a silent server, unless the network
 * reports the loss (after about 25 s): a caller that waits for a reply must set its own timeout.
 */
#ifndef TARRY_REDIS_CONNECTION_H
#define TARRY_REDIS_CONNECTION_H

#include "base/buffer.h"
#include "net/reactor.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

struct redis_connection;

struct redis_connection_events {
    void (*up)(void *ctx);
    /* The connection could not be made, or ended. `why` is a text for people. */
    void (*down)(void *ctx, const char *why);
    /* One reply (or pushed message), valid during the callback. */
    void (*reply)(void *ctx, const redisReply *reply);
};

/* Resolves the host, connects and, if `tls` is on, performs the handshake. `tls` must outlive the
 * connection. `connect_ms`: the time limit to connect, and again for the handshake. Returns NULL if
 * memory runs out. */
struct redis_connection *redis_connection_new(struct reactor *reactor,
                                              const struct redis_endpoint *endpoint,
                                              const struct redis_tls *tls, int64_t connect_ms,
                                              const struct redis_connection_events *events,
                                              void *ctx);
/* Passes ownership of a reply to the caller, which frees it with freeReplyObject. Only inside the
 * reply's callback. */
redisReply *redis_connection_take_reply(struct redis_connection *connection);
/* Adds the bytes sent and received from now on to these two counters, which must outlive the
 * connection. */
void redis_connection_count(struct redis_connection *connection, uint64_t *sent,
                            uint64_t *received);
/* Frees the connection. Allowed at any time, also inside its callbacks; no callback runs
 * afterwards. */
void redis_connection_free(struct redis_connection *connection);

/*
 * Returns the buffer to which the next command is appended in the Redis protocol (see command.h).
 * It is sent at the end of the loop iteration, or once the connection is up. Do not keep the
 * pointer beyond the iteration. A failed buffer (3 GiB unsent, or out of memory) ends the
 * connection. Bytes appended after the end are discarded and cost nothing.
 */
struct buffer *redis_connection_out(struct redis_connection *connection);
/* Returns the number of bytes appended and not yet accepted by the socket, for back-pressure. */
size_t redis_connection_unsent(const struct redis_connection *connection);

#endif
