/*
 * rocketmq_names: queries the name servers of a cluster for the brokers of a topic.
 *
 * One server is asked at a time. If it cannot be reached, disconnects or does not answer, the next
 * one is asked, until all have failed in a row. There are few, small queries; each ends with one
 * event, unless the object is freed before.
 *
 * Used on the reactor's thread. Events never occur inside a call.
 */
#ifndef TARRY_TARGETS_ROCKETMQ_NAMES_H
#define TARRY_TARGETS_ROCKETMQ_NAMES_H

#include "targets/rocketmq/connection.h"

struct rocketmq_names;

struct rocketmq_names_events {
    void (*found)(void *ctx, void *asker, const struct rocketmq_master *masters, size_t count);
    void (*missing)(void *ctx, void *asker); /* no broker has the topic now */
    void (*failed)(void *ctx, void *asker, const char *why);
    void (*gone)(void *ctx); /* after rocketmq_names_free; the last event */
};

/* Copies `places`; `login` as for rocketmq_connection_new. Returns NULL when out of memory. */
struct rocketmq_names *rocketmq_names_new(const struct target_env *env,
                                          const struct target_place *places, size_t count,
                                          const char *login,
                                          const struct rocketmq_names_events *events, void *ctx);
/* Copies `topic`. Returns false when out of memory. */
bool rocketmq_names_ask(struct rocketmq_names *names, const char *topic, void *asker);
void rocketmq_names_free(struct rocketmq_names *names);

#endif
