/*
 * rocketmq_connection: the protocol of a session with a name server or broker of RocketMQ: sends
 * requests, receives answers.
 */
#ifndef TARRY_TARGETS_ROCKETMQ_CONNECTION_H
#define TARRY_TARGETS_ROCKETMQ_CONNECTION_H

#include "targets/rocketmq/frame.h"
#include "targets/session.h"

struct rocketmq_connection;

struct rocketmq_connection_events {
    struct session_events session;
    /* valid during the callback */
    void (*answer)(void *owner, const struct rocketmq_answer *answer);
};

/* Creates a connection. `login` is the origin whose credential in the policy file signs requests;
 * `login` and `env` outlive the connection, which is freed
 * with its session. Returns NULL when out of memory. */
struct rocketmq_connection *rocketmq_connection_new(const struct target_env *env,
                                                    const struct target_place *place,
                                                    const char *login,
                                                    const struct rocketmq_connection_events *events,
                                                    void *owner);
struct session *rocketmq_connection_session(const struct rocketmq_connection *connection);

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

#endif
