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

#include "redis/slot.h"
#include "redis/url.h"

#include "base/list.h"
#include "base/vector.h"
#include "net/reactor.h"

#include <hiredis/hiredis.h>

/*
 * topology_map: the master as Sentinel reports it, and which node of a cluster serves which slot,
 * as CLUSTER SLOTS reports it. Pure.
 *
 * The caller provides the storage; a zeroed map is valid and empty; the nodes are on the heap. One
 * thread.
 */

enum { REDIS_NODES_MAX = 1000 };

/* Reads the reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Returns false if it contains no endpoint. */
bool redis_master_endpoint_read(const redisReply *reply, struct redis_endpoint *out);

VECTOR_DECLARE(redis_nodes, struct redis_endpoint)

struct redis_map {
    struct redis_nodes nodes;      /* masters and replicas */
    uint16_t node_of[REDIS_SLOTS]; /* 1 + index; 0: no known node */
};

void redis_map_fini(struct redis_map *map);

/* Returns the node that serves the slot, or NULL if unknown. Valid until the map changes. */
const struct redis_endpoint *redis_map_find(const struct redis_map *map, uint16_t slot);
/* Sets the slot's master. If memory runs out or there are too many nodes, the slot's master becomes
 * unknown. */
void redis_map_set(struct redis_map *map, uint16_t slot, const struct redis_endpoint *endpoint);
/* Replaces the map with the reply of `asked` to CLUSTER SLOTS; `asked` stands for a host that the
 * reply leaves empty. Returns false, and keeps the map, if it is not such a reply or contains no
 * slot. */
bool redis_map_read(struct redis_map *map, const redisReply *reply,
                    const struct redis_endpoint *asked);

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
