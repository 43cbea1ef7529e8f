/*
 * rocketmq_connection: the connection to a name server or broker over a link: sends requests,
 * receives answers. It connects when needed, and closes half a minute after it is no longer needed.
 *
 * Used on the reactor's thread. Events never occur inside a call. As with a link, there is an `up`
 * or one `down` after it was needed, and one `down` after an `up`.
 */
#ifndef TARRY_TARGETS_ROCKETMQ_CONNECTION_H
#define TARRY_TARGETS_ROCKETMQ_CONNECTION_H

#include "targets/link.h"
#include "targets/rocketmq/frame.h"

struct rocketmq_connection;

struct rocketmq_connection_events {
    void (*up)(void *ctx);
    void (*answer)(void *ctx, const struct rocketmq_answer *answer); /* valid during the callback */
    void (*room)(void *ctx); /* after a request that found no room */
    void (*down)(void *ctx, const char *why);
    void (*gone)(void *ctx); /* after rocketmq_connection_free; the last event */
};

/* Creates a connection. `login` is the origin whose credential in the policy file signs requests;
 * `login` and `env` outlive the connection. Returns NULL when out of memory. */
struct rocketmq_connection *rocketmq_connection_new(const struct target_env *env,
                                                    const struct target_place *place,
                                                    const char *login,
                                                    const struct rocketmq_connection_events *events,
                                                    void *ctx);
void rocketmq_connection_needed(struct rocketmq_connection *connection, bool is_needed);
bool rocketmq_connection_is_up(const struct rocketmq_connection *connection);
/* Returns true if it is neither up nor connecting nor waiting for the end of a pause. */
bool rocketmq_connection_is_down(const struct rocketmq_connection *connection);
/* Returns the time of the last received data, on the inner clock, while it is up. */
int64_t rocketmq_connection_in_ms(const struct rocketmq_connection *connection);

enum rocketmq_sent {
    ROCKETMQ_SENT = 1,     /* being sent; part of it may have been sent */
    ROCKETMQ_FULL,         /* nothing was sent: `room`, `up` or `down` follows */
    ROCKETMQ_OUT_OF_MEMORY /* nothing was sent */
};
/* Sends a request; only while it is up. */
enum rocketmq_sent rocketmq_connection_send(struct rocketmq_connection *connection,
                                            enum rocketmq_code code, uint32_t opaque,
                                            const struct rocketmq_field *fields, size_t count,
                                            struct slice body);
/* Ends the connection because of an error of the peer: `down` follows. */
void rocketmq_connection_fail(struct rocketmq_connection *connection, const char *why);
void rocketmq_connection_free(struct rocketmq_connection *connection);

#endif
