#include "redis/topology_map.h"

#include <stdlib.h>
#include <string.h>

void redis_map_init(struct redis_map *map)
{
    memset(map, 0, sizeof *map);
}

void redis_map_fini(struct redis_map *map)
{
    free(map->nodes);
    memset(map, 0, sizeof *map);
}

const struct redis_endpoint *redis_map_find(const struct redis_map *map, uint16_t slot)
{
    uint16_t node = slot < REDIS_SLOTS ? map->node_of[slot] : 0;
    return node ? &map->nodes[node - 1] : NULL;
}

static bool grow(struct redis_map *map)
{
    uint32_t room = map->node_room ? 2 * map->node_room : 16;
    struct redis_endpoint *nodes = realloc(map->nodes, room * sizeof *nodes);
    if (!nodes)
        return false;
    map->nodes = nodes;
    map->node_room = room;
    return true;
}

/* 1 + its index; 0: no room. */
static uint16_t add_node(struct redis_map *map, const struct redis_endpoint *endpoint)
{
    for (uint32_t i = 0; i < map->node_count; i++)
        if (map->nodes[i].port == endpoint->port && strcmp(map->nodes[i].host, endpoint->host) == 0)
            return (uint16_t)(i + 1);
    if (map->node_count == REDIS_NODES_MAX)
        return 0;
    if (map->node_count == map->node_room && !grow(map))
        return 0;
    map->nodes[map->node_count++] = *endpoint;
    return (uint16_t)map->node_count;
}

void redis_map_set(struct redis_map *map, uint16_t slot, const struct redis_endpoint *endpoint)
{
    if (slot < REDIS_SLOTS)
        map->node_of[slot] = add_node(map, endpoint);
}

/* ---- reading ---- */

static const redisReply *element(const redisReply *reply, size_t at, int type)
{
    if (reply->type != REDIS_REPLY_ARRAY || at >= reply->elements)
        return NULL;
    return reply->element[at]->type == type ? reply->element[at] : NULL;
}

static bool read_node(const redisReply *node, const struct redis_endpoint *asked,
                      struct redis_endpoint *out)
{
    const redisReply *host = element(node, 0, REDIS_REPLY_STRING);
    const redisReply *port = element(node, 1, REDIS_REPLY_INTEGER);
    bool named = host && host->len > 0 && strcmp(host->str, "?") != 0;
    if (!port || port->integer < 1 || port->integer > UINT16_MAX)
        return false;
    if (named && host->len >= REDIS_HOST_BYTES)
        return false;
    memcpy(out->host, named ? host->str : asked->host,
           (named ? strlen(host->str) : strlen(asked->host)) + 1);
    out->port = (uint16_t)port->integer;
    return true;
}

/* One range of slots: first, last, its master, its replicas. */
static bool read_range(struct redis_map *map, const redisReply *range,
                       const struct redis_endpoint *asked)
{
    const redisReply *first = element(range, 0, REDIS_REPLY_INTEGER);
    const redisReply *last = element(range, 1, REDIS_REPLY_INTEGER);
    struct redis_endpoint endpoint;
    if (!first || !last || first->integer < 0 || first->integer > last->integer ||
        last->integer >= REDIS_SLOTS || range->elements < 3)
        return false;
    if (!read_node(range->element[2], asked, &endpoint))
        return false;
    uint16_t master = add_node(map, &endpoint);
    for (long long slot = first->integer; slot <= last->integer; slot++)
        map->node_of[slot] = master;
    for (size_t i = 3; i < range->elements; i++)
        if (read_node(range->element[i], asked, &endpoint))
            (void)add_node(map, &endpoint);
    return master != 0;
}

bool redis_map_read(struct redis_map *map, const redisReply *reply,
                    const struct redis_endpoint *asked)
{
    struct redis_map *fresh = calloc(1, sizeof *fresh);
    bool good = fresh && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    for (size_t i = 0; good && i < reply->elements; i++)
        good = read_range(fresh, reply->element[i], asked);
    if (good) {
        free(map->nodes);
        *map = *fresh;
    } else if (fresh) {
        free(fresh->nodes);
    }
    free(fresh);
    return good;
}
