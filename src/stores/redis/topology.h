/*
 * topology: finds the current master of a slot: a single server, the master that Sentinel names, or
 * the map of a cluster. Shared by all sessions of a reactor; one thread.
 *
 * Queries are lazy: the map is fetched when first needed, and again when a session reports that it
 * was wrong (MOVED, READONLY, a refused connection), at most once every REDIS_WHERE_PAUSE_MS. All
 * sessions that ask meanwhile share one query. With Sentinel, all are notified when another server
 * becomes master.
 */
#ifndef TARRY_REDIS_TOPOLOGY_H
#define TARRY_REDIS_TOPOLOGY_H

#include "base/list.h"
#include "net/reactor.h"
#include "redis/url.h"

enum { REDIS_WHERE_PAUSE_MS = 200 };

struct redis_topology;

struct redis_topology *redis_topology_new(struct reactor *reactor, const struct redis_url *url);
/* Frees the topology. Queries in progress get no reply. */
void redis_topology_free(struct redis_topology *topology);

/* A session that asks. Embed it; it must exist until redis_topology_leave. */
struct redis_topology_asker {
    struct list list;
    uint16_t slot;
    bool waits; /* for `found` */
    /* Receives the result; never runs inside a call. `endpoint` is NULL if no server could be
     * queried or no server serves the slot; `why` names the reason. Valid during the callback. */
    void (*found)(void *ctx, const struct redis_endpoint *endpoint, const char *why);
    /* Called when `from` is no longer master; a query now returns the new one. */
    void (*deposed)(void *ctx, const struct redis_endpoint *from);
    void *ctx;
};
/* Asks for the master of the asker's slot. From then on the asker is also notified when a master is
 * deposed. `fresh`: the known master was found wrong; query again. */
void redis_topology_ask(struct redis_topology *topology, struct redis_topology_asker *asker,
                        bool fresh);
/* Stops all callbacks to the asker until it asks again. */
void redis_topology_leave(struct redis_topology_asker *asker);
/* Takes in a MOVED: the slot's master is at `endpoint`. */
void redis_topology_moved(struct redis_topology *topology, uint16_t slot,
                          const struct redis_endpoint *endpoint);

#endif
