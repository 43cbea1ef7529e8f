/*
 * topology: which server is master of a slot, now: a single server, Sentinel's word, or a cluster's
 * map. Shared by all sessions of a reactor; one thread.
 *
 * Asking is lazy: the map is learned when first asked for, and again when a session says it was wrong
 * (MOVED, READONLY, a refused connection), at most once every REDIS_WHERE_PAUSE_MS; all who ask
 * meanwhile share the one question. Under Sentinel all are told when another server was made master.
 */
#ifndef TARRY_REDIS_TOPOLOGY_H
#define TARRY_REDIS_TOPOLOGY_H

#include "base/list.h"
#include "net/reactor.h"
#include "redis/url.h"

enum { REDIS_WHERE_PAUSE_MS = 200 };

struct redis_topology;

struct redis_topology *redis_topology_new(struct reactor *reactor, const struct redis_url *url);
/* Questions under way are not answered any more. */
void redis_topology_free(struct redis_topology *topology);

/* Who asks. Embed it; it must stay until redis_topology_leave. */
struct redis_topology_asker {
    struct list list;
    uint16_t slot;
    bool waits; /* for `found` */
    /* The answer; never inside a call. `endpoint` NULL: nobody could be asked, or nobody serves the
     * slot; `why` says so. Valid during the callback. */
    void (*found)(void *ctx, const struct redis_endpoint *endpoint, const char *why);
    /* `from` is master no more; asking now tells who is. */
    void (*deposed)(void *ctx, const struct redis_endpoint *from);
    void *ctx;
};
/* From then on it is told of masters that are deposed, too. `fresh`: what is known was found wrong;
 * ask again. */
void redis_topology_ask(struct redis_topology *topology, struct redis_topology_asker *asker,
                        bool fresh);
/* It is told nothing any more, until it asks again. */
void redis_topology_leave(struct redis_topology_asker *asker);
/* A MOVED: the slot's master is there. */
void redis_topology_moved(struct redis_topology *topology, uint16_t slot,
                          const struct redis_endpoint *endpoint);

#endif
