/*
 * topology_map: who is master, as Sentinel tells it, and which node of a cluster serves which slot,
 * as CLUSTER SLOTS tells it. Pure.
 *
 * Owner: the caller's storage; zeroed it is a valid map of nothing; the nodes are on the heap. One
 * thread.
 */
#ifndef TARRY_REDIS_TOPOLOGY_MAP_H
#define TARRY_REDIS_TOPOLOGY_MAP_H

#include "base/vector.h"
#include "redis/slot.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

enum { REDIS_NODES_MAX = 1000 };

/* Of a host's name and a port in digits. False: they are none. */
bool redis_master_endpoint_make(struct slice host, struct slice port, struct redis_endpoint *out);
/* Of the reply to SENTINEL GET-MASTER-ADDR-BY-NAME. False: it tells none. */
bool redis_master_endpoint_read(const redisReply *reply, struct redis_endpoint *out);

VECTOR_DECLARE(redis_nodes, struct redis_endpoint)

struct redis_map {
    struct redis_nodes nodes;      /* masters and replicas */
    uint16_t node_of[REDIS_SLOTS]; /* 1 + index; 0: nobody that is known */
};

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
