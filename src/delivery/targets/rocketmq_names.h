/*
 * rocketmq_names: the name servers of one cluster: who takes messages for a topic.
 *
 * One of them is asked at a time; where it cannot be reached, falls or is silent, the next one is,
 * until all have failed in a row. Questions are few and small; each ends in one event, unless the
 * whole is freed before.
 *
 * One thread, the reactor's. No event comes inside a call.
 */
#ifndef TARRY_TARGETS_ROCKETMQ_NAMES_H
#define TARRY_TARGETS_ROCKETMQ_NAMES_H

#include "targets/rocketmq_connection.h"

struct rocketmq_names;

struct rocketmq_names_events {
    void (*found)(void *ctx, void *asker, const struct rocketmq_master *masters, size_t count);
    void (*missing)(void *ctx, void *asker); /* no broker has the topic now */
    void (*failed)(void *ctx, void *asker, const char *why);
    void (*gone)(void *ctx); /* after rocketmq_names_free; the last */
};

/* `places` are copied; `login` as rocketmq_connection_new. NULL: out of memory. */
struct rocketmq_names *rocketmq_names_new(const struct target_env *env,
                                          const struct target_place *places, size_t count,
                                          const char *login,
                                          const struct rocketmq_names_events *events, void *ctx);
/* `topic` is copied. False: out of memory. */
bool rocketmq_names_ask(struct rocketmq_names *names, const char *topic, void *asker);
void rocketmq_names_free(struct rocketmq_names *names);

#endif
