/*
 * topology_map: the master as Sentinel reports it, and which node of a cluster serves which slot,
 * as CLUSTER SLOTS reports it. Pure.
 *
 * The caller provides the storage; a zeroed map is valid and empty; the nodes are on the heap. One
 * thread.
 */
#ifndef TARRY_REDIS_TOPOLOGY_MAP_H
#define TARRY_REDIS_TOPOLOGY_MAP_H

#include "base/vector.h"
#include "redis/slot.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

enum { REDIS_NODES_MAX = 1000 };

/* Makes an endpoint of a host name and a port in digits. Returns false if they are invalid. */
bool redis_master_endpoint_make(struct slice host, struct slice port, struct redis_endpoint *out);
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

#endif
