/*
 * subscription: a connection that hears what is published on one channel, and is made again by itself
 * when it ends. What is published while there is none is not heard of.
 *
 * Embed it. One thread, the reactor's. No callback comes inside a call; a callback may start and stop
 * it, and may not end it.
 */
#ifndef TARRY_REDIS_SUBSCRIPTION_H
#define TARRY_REDIS_SUBSCRIPTION_H

#include "redis/connection.h"

enum { REDIS_SUBSCRIPTION_PAUSE_MS = 1000 /* before it is made again */ };

struct redis_subscription_options {
    struct reactor *reactor;
    const struct redis_tls *tls; /* outlives it, as the next do */
    const char *user, *password; /* empty: none */
    const char *subscribe;       /* SUBSCRIBE, or SSUBSCRIBE: the channel's slot matters */
    char channel[80];
    int64_t connect_ms;
    /* Where to connect, asked each time. */
    const struct redis_endpoint *(*where)(void *ctx);
    void (*message)(void *ctx, struct slice message);
    /* From now on nothing is missed; and after an error of Redis': how long the pause is. Either may
     * be NULL. */
    void (*subscribed)(void *ctx);
    int64_t (*refused)(void *ctx, const char *error);
    void *ctx;
};

struct redis_subscription {
    struct redis_subscription_options options;
    struct redis_connection *connection; /* NULL: not started, or until the deadline */
    struct deadline *deadline;
    bool is_subscribed;
};

/* Copies the options. False: no memory. */
bool redis_subscription_init(struct redis_subscription *subscription,
                             const struct redis_subscription_options *options);
/* Of a zeroed one: nothing. */
void redis_subscription_fini(struct redis_subscription *subscription);
/* Anew, where it had been started. */
void redis_subscription_start(struct redis_subscription *subscription);
void redis_subscription_stop(struct redis_subscription *subscription);

#endif
