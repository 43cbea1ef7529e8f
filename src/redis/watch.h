/*
 * watch: hears from a sentinel, at once, that another server was made master.
 *
 * An old master that lives does not know of it: it says it is master, and takes changes, until the
 * sentinels make it a replica some 10 s later, which throws away all that it took meanwhile. So
 * those who talk to it must be told.
 *
 * One connection, to one sentinel of the URL after the other until one stays. A switch that happens
 * while there is none is not heard of; the sessions then find out when the old master is a replica.
 * One thread, the reactor's.
 */
#ifndef TARRY_REDIS_WATCH_H
#define TARRY_REDIS_WATCH_H

#include "net/reactor.h"
#include "redis/url.h"

struct redis_watch;

/* `from` is master no more, `to` is. Valid during the callback, which may not free the watch. */
typedef void redis_watch_switched(void *ctx, const struct redis_endpoint *from,
                                  const struct redis_endpoint *to);

/* `url` must outlive it. NULL: out of memory. */
struct redis_watch *redis_watch_new(struct reactor *reactor, const struct redis_url *url,
                                    redis_watch_switched *switched, void *ctx);
void redis_watch_free(struct redis_watch *watch);

#endif
