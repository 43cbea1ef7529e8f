/*
 * topology_map: which node of a cluster serves which slot, as CLUSTER SLOTS tells it. Pure.
 *
 * Owner: the caller's storage; the nodes are on the heap. One thread.
 */
#ifndef TARRY_REDIS_TOPOLOGY_MAP_H
#define TARRY_REDIS_TOPOLOGY_MAP_H

#include "redis/slot.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

enum { REDIS_NODES_MAX = 1000 };

struct redis_map {
    struct redis_endpoint *nodes; /* masters and replicas */
    uint32_t node_count, node_room;
    uint16_t node_of[REDIS_SLOTS]; /* 1 + index; 0: nobody that is known */
};

void redis_map_init(struct redis_map *map);
void redis_map_fini(struct redis_map *map);

/* NULL: nobody that is known serves it. Valid until the map changes. */
const struct redis_endpoint *redis_map_find(const struct redis_map *map, uint16_t slot);
/* The slot's master is there. Out of memory or with too many nodes: the slot's master is unknown.
 */
void redis_map_set(struct redis_map *map, uint16_t slot, const struct redis_endpoint *endpoint);
/* A whole new map from the reply to CLUSTER SLOTS that `asked` gave, who stands for a host it does
 * not name. False: not such a reply, or no slot in it; the map is as before. */
bool redis_map_read(struct redis_map *map, const redisReply *reply,
                    const struct redis_endpoint *asked);

#endif
