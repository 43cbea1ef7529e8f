/*
 * subscription: a connection that receives what is published on one channel, and that reconnects
 * automatically when it ends. Messages published while it is down are lost.
 *
 * Embed it. Runs on the reactor's thread only. No callback runs inside a call; a callback may start
 * and stop the subscription, but must not end it.
 */
#ifndef TARRY_REDIS_SUBSCRIPTION_H
#define TARRY_REDIS_SUBSCRIPTION_H

#include "redis/connection.h"

enum { REDIS_SUBSCRIPTION_PAUSE_MS = 1000 /* pause before a reconnect */ };

struct redis_subscription_options {
    struct reactor *reactor;
    const struct redis_tls *tls; /* must outlive the subscription, as must the next two */
    const char *user, *password; /* empty: not used */
    const char *subscribe;       /* SUBSCRIBE, or SSUBSCRIBE: then the channel's slot matters */
    char channel[80];
    int64_t connect_ms;
    /* Returns the endpoint; called for each connect. */
    const struct redis_endpoint *(*where)(void *ctx);
    void (*message)(void *ctx, struct slice message);
    /* Called when no message is missed from now on; and after a Redis error, to return the length
     * of the pause. Either may be NULL. */
    void (*subscribed)(void *ctx);
    int64_t (*refused)(void *ctx, const char *error);
    void *ctx;
};

struct redis_subscription {
    struct redis_subscription_options options;
    struct redis_connection *connection; /* NULL: not started, or waiting for the deadline */
    struct deadline *deadline;
    bool is_subscribed;
};

/* Copies the options. Returns false if memory runs out. */
bool redis_subscription_init(struct redis_subscription *subscription,
                             const struct redis_subscription_options *options);
/* Does nothing for a zeroed one. */
void redis_subscription_fini(struct redis_subscription *subscription);
/* Starts the subscription; restarts it if it was already started. */
void redis_subscription_start(struct redis_subscription *subscription);
void redis_subscription_stop(struct redis_subscription *subscription);

#endif
