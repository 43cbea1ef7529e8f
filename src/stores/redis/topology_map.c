#include "redis/topology_map.h"

#include "base/text.h"

#include <stdlib.h>

/* ---- sentinel ---- */

bool redis_master_endpoint_make(struct slice host, struct slice port, struct redis_endpoint *out)
{
    uint64_t number;
    if (host.len == 0 || host.len >= sizeof out->host ||
        !text_parse_u64(port, UINT16_MAX, &number) || number == 0)
        return false;
    *out = (struct redis_endpoint){.port = (uint16_t)number};
    memcpy(out->host, host.at, host.len);
    return true;
}

static const redisReply *element(const redisReply *reply, size_t at, int type)
{
    if (reply->type != REDIS_REPLY_ARRAY || at >= reply->elements)
        return NULL;
    return reply->element[at]->type == type ? reply->element[at] : NULL;
}

bool redis_master_endpoint_read(const redisReply *reply, struct redis_endpoint *out)
{
    const redisReply *host = element(reply, 0, REDIS_REPLY_STRING);
    const redisReply *port = element(reply, 1, REDIS_REPLY_STRING);
    return host && port && reply->elements == 2 &&
           redis_master_endpoint_make(slice_make(host->str, host->len),
                                      slice_make(port->str, port->len), out);
}

/* ---- a cluster's map ---- */

void redis_map_fini(struct redis_map *map)
{
    redis_nodes_fini(&map->nodes);
    *map = (struct redis_map){0};
}

const struct redis_endpoint *redis_map_find(const struct redis_map *map, uint16_t slot)
{
    uint16_t node = slot < REDIS_SLOTS ? map->node_of[slot] : 0;
    return node ? &map->nodes.at[node - 1] : NULL;
}

/* Returns 1 + the node's index; 0: no room. */
static uint16_t add_node(struct redis_map *map, const struct redis_endpoint *endpoint)
{
    for (uint32_t i = 0; i < map->nodes.count; i++)
        if (map->nodes.at[i].port == endpoint->port &&
            strcmp(map->nodes.at[i].host, endpoint->host) == 0)
            return (uint16_t)(i + 1);
    if (map->nodes.count == REDIS_NODES_MAX || !redis_nodes_add(&map->nodes, *endpoint))
        return 0;
    return (uint16_t)map->nodes.count;
}

void redis_map_set(struct redis_map *map, uint16_t slot, const struct redis_endpoint *endpoint)
{
    if (slot < REDIS_SLOTS)
        map->node_of[slot] = add_node(map, endpoint);
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

/* Reads one range of slots: first, last, its master, its replicas. */
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
        redis_nodes_fini(&map->nodes);
        *map = *fresh;
    } else if (fresh) {
        redis_nodes_fini(&fresh->nodes);
    }
    free(fresh);
    return good;
}
