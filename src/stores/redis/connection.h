/*
 * connection: one pipelined conversation with one Redis server.
 *
 * The socket is libuv's, replies are read by hiredis. Commands go out in the order they were
 * appended, many per write: what a turn appends is written at its end. Replies come back in that
 * order; whoever owns the connection keeps track of what they answer.
 *
 * One thread, the reactor's. No callback comes inside a call; `down` comes at the end of a turn,
 * once. After it nothing more comes and the owner frees the connection; replies that had not come
 * will not come. A server that is silent is not noticed here but where the network loses it (some
 * 25 s): who waits for an answer keeps the time.
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
    /* Could not be made, or ended. `why` is for people. */
    void (*down)(void *ctx, const char *why);
    /* One reply (or pushed message). Valid during the callback. */
    void (*reply)(void *ctx, const redisReply *reply);
};

/* Resolves, connects, and agrees on how to encrypt where `tls` is on, which must outlive it. NULL:
 * out of memory. `connect_ms`: how long each of the two may take. */
struct redis_connection *redis_connection_new(struct reactor *reactor,
                                              const struct redis_endpoint *endpoint,
                                              const struct redis_tls *tls, int64_t connect_ms,
                                              const struct redis_connection_events *events,
                                              void *ctx);
/* In the callback of a reply: it is the caller's from now on, who ends it by freeReplyObject. */
redisReply *redis_connection_take_reply(struct redis_connection *connection);
/* From now on the bytes it sends and receives are added to these two, which must outlive it. */
void redis_connection_count(struct redis_connection *connection, uint64_t *sent,
                            uint64_t *received);
/* At any time, also from its callbacks; no callback comes after it. */
void redis_connection_free(struct redis_connection *connection);

/*
 * Where the next command is put (see command.h), in Redis' protocol. It is sent at the end of the
 * turn; before `up`, once up. Ask for it again in each turn. A failed buffer (3 GiB unsent, or out
 * of memory) ends the connection; after the end what is appended goes nowhere, and costs nothing.
 */
struct buffer *redis_connection_out(struct redis_connection *connection);
/* Bytes appended and not yet taken by the socket: for back-pressure. */
size_t redis_connection_unsent(const struct redis_connection *connection);

#endif
