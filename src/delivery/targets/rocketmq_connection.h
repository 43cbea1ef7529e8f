/*
 * rocketmq_connection: the conversation with one name server or broker over a link: requests out,
 * answers in. It connects when somebody needs it, and goes half a minute after nobody does.
 *
 * One thread, the reactor's. No event comes inside a call. As a link: an `up` or one `down` after it
 * was needed, an `up` to one `down`.
 */
#ifndef TARRY_TARGETS_ROCKETMQ_CONNECTION_H
#define TARRY_TARGETS_ROCKETMQ_CONNECTION_H

#include "targets/link.h"
#include "targets/rocketmq_frame.h"

struct rocketmq_connection;

struct rocketmq_connection_events {
    void (*up)(void *ctx);
    void (*answer)(void *ctx, const struct rocketmq_answer *answer); /* valid during the callback */
    void (*room)(void *ctx); /* after a request that found none */
    void (*down)(void *ctx, const char *why);
    void (*gone)(void *ctx); /* after rocketmq_connection_free; the last */
};

/* `login`: the origin whose credential of the policy file signs requests; it and `env` outlive the
 * connection. NULL: out of memory. */
struct rocketmq_connection *rocketmq_connection_new(const struct target_env *env,
                                                    const struct target_place *place,
                                                    const char *login,
                                                    const struct rocketmq_connection_events *events,
                                                    void *ctx);
void rocketmq_connection_needed(struct rocketmq_connection *connection, bool is_needed);
bool rocketmq_connection_is_up(const struct rocketmq_connection *connection);
/* Nothing leads it up: not even a pause that will be over. */
bool rocketmq_connection_is_down(const struct rocketmq_connection *connection);
/* When it last said something, on the inner clock, while it is up. */
int64_t rocketmq_connection_in_ms(const struct rocketmq_connection *connection);

enum rocketmq_sent {
    ROCKETMQ_SENT = 1,     /* on its way; some of it may have left */
    ROCKETMQ_FULL,         /* nothing of it left: `room`, `up` or `down` follows */
    ROCKETMQ_OUT_OF_MEMORY /* nothing of it left */
};
/* While it is up. */
enum rocketmq_sent rocketmq_connection_send(struct rocketmq_connection *connection,
                                            enum rocketmq_code code, uint32_t opaque,
                                            const struct rocketmq_field *fields, size_t count,
                                            struct slice body);
/* Down as the peer's fault: `down` follows. */
void rocketmq_connection_fail(struct rocketmq_connection *connection, const char *why);
void rocketmq_connection_free(struct rocketmq_connection *connection);

#endif
