/*
 * One query at a time, sent to one candidate after another until one can answer it: the sentinels
 * of the URL, or the nodes of the last map and then those of the URL. Each query begins with a
 * different candidate than the previous one, so that a node that is cut off from the others and
 * returns outdated information is not trusted forever.
 */
#include "redis/topology.h"

#include "redis/command.h"
#include "redis/redis.h"
#include "redis/subscription.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { REDIS_WHERE_PAUSE_MS = 200 };

/* ---- sentinel ---- */

/* Makes an endpoint of a host name and a port in digits. Returns false if they are invalid. */
static bool redis_master_endpoint_make(struct slice host, struct slice port,
                                       struct redis_endpoint *out)
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

/* ---- topology ---- */

enum { CONNECT_MS = 1000, ANSWER_MS = 2000, WHY_BYTES = 256 };

struct redis_topology {
    struct reactor *reactor;
    struct redis_url url;
    struct deadline *deadline;
    struct list askers; /* in order of arrival */
    bool must_ask;
    struct redis_subscription switches; /* sentinel: notified of a new master */
    uint32_t next_sentinel;             /* the next to subscribe to */
    /* current information */
    struct redis_map map;         /* cluster */
    struct redis_endpoint master; /* sentinel; port 0: unknown */
    /* the query in progress */
    struct redis_connection *connection; /* NULL: no query */
    struct redis_endpoint asked;
    uint32_t tried;
    bool wants_auth_reply;
    char why[WHY_BYTES];
    uint32_t first; /* the candidate that the next query begins with */
    int64_t ended_ms;
};

/* ---- current information ---- */

static const struct redis_endpoint *known(const struct redis_topology *topology, uint16_t slot)
{
    switch (topology->url.kind) {
    case REDIS_SINGLE:
        return &topology->url.hosts[0];
    case REDIS_SENTINEL:
        return topology->master.port ? &topology->master : NULL;
    case REDIS_CLUSTER:
        break;
    }
    return redis_map_find(&topology->map, slot);
}

/* Returns NULL if no asker is waiting. */
static struct redis_topology_asker *first_waiting(const struct redis_topology *topology)
{
    for (struct list *at = topology->askers.next; at != &topology->askers; at = at->next) {
        struct redis_topology_asker *asker = list_entry(at, struct redis_topology_asker, list);
        if (asker->waits)
            return asker;
    }
    return NULL;
}

/* Answers all waiting askers. One that asks again in its callback is answered in another loop
 * iteration. */
static void notify_all(struct redis_topology *topology)
{
    struct redis_topology_asker *asker;
    struct list waiting;
    topology->must_ask = false;
    list_init(&waiting);
    while ((asker = first_waiting(topology))) {
        list_remove(&asker->list);
        list_add_last(&waiting, &asker->list);
        asker->waits = false;
    }
    while (!list_is_empty(&waiting)) {
        asker = list_entry(waiting.next, struct redis_topology_asker, list);
        const struct redis_endpoint *endpoint = known(topology, asker->slot);
        struct redis_endpoint copy;
        if (endpoint)
            copy = *endpoint;
        list_remove(&asker->list);
        list_add_last(&topology->askers, &asker->list);
        asker->found(asker->ctx, endpoint ? &copy : NULL, topology->why);
    }
}

/* ---- candidates ---- */

static uint32_t candidate_count(const struct redis_topology *topology)
{
    return topology->url.host_count +
           (topology->url.kind == REDIS_CLUSTER ? (uint32_t)topology->map.nodes.count : 0);
}

static struct redis_endpoint candidate(const struct redis_topology *topology, uint32_t i)
{
    uint32_t nodes = candidate_count(topology) - topology->url.host_count;
    i = (topology->first + i) % (nodes + topology->url.host_count);
    return i < nodes ? topology->map.nodes.at[i] : topology->url.hosts[i - nodes];
}

/* ---- a query ---- */

static void put_question(struct redis_topology *topology);

static void end_question(struct redis_topology *topology, bool answered)
{
    redis_connection_free(topology->connection);
    topology->connection = NULL;
    topology->ended_ms = clock_inner_ms();
    topology->first += topology->tried;
    if (topology->url.kind == REDIS_SENTINEL && !answered)
        topology->master.port = 0;
    notify_all(topology);
    if (topology->must_ask)
        deadline_set(topology->deadline, topology->ended_ms + REDIS_WHERE_PAUSE_MS);
    else
        deadline_set(topology->deadline, first_waiting(topology) ? topology->ended_ms : INT64_MAX);
}

static void try_next(struct redis_topology *topology, const char *why)
{
    snprintf(topology->why, sizeof topology->why, "'%.100s' port %u: %.120s", topology->asked.host,
             (unsigned)topology->asked.port, why);
    redis_connection_free(topology->connection);
    topology->connection = NULL;
    put_question(topology);
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct redis_topology *topology = ctx;
    if (reply->type == REDIS_REPLY_ERROR) {
        try_next(topology, reply->str);
        return;
    }
    if (topology->wants_auth_reply) {
        topology->wants_auth_reply = false;
        return;
    }
    if (topology->url.kind == REDIS_CLUSTER) {
        if (!redis_map_read(&topology->map, reply, &topology->asked)) {
            try_next(topology, "has no slots of a cluster");
            return;
        }
        snprintf(topology->why, sizeof topology->why, "no node serves the slot");
    } else if (!redis_master_endpoint_read(reply, &topology->master)) {
        try_next(topology, "this sentinel does not have the master");
        return;
    }
    end_question(topology, true);
}

static void on_up(void *ctx)
{
    struct redis_topology *topology = ctx;
    bool sentinel = topology->url.kind == REDIS_SENTINEL;
    const char *user = sentinel ? topology->url.sentinel_user : topology->url.user;
    const char *password = sentinel ? topology->url.sentinel_password : topology->url.password;
    struct buffer *out = redis_connection_out(topology->connection);

    topology->wants_auth_reply = redis_command_auth(out, user, password);
    if (sentinel)
        redis_command_words(out, "SENTINEL", "get-master-addr-by-name", topology->url.master, NULL);
    else
        redis_command_words(out, "CLUSTER", "SLOTS", NULL);
}

static void on_down(void *ctx, const char *why)
{
    try_next(ctx, why);
}

static void put_question(struct redis_topology *topology)
{
    static const struct redis_connection_events events = {
        .up = on_up, .down = on_down, .reply = on_reply};
    while (topology->tried < candidate_count(topology)) {
        topology->asked = candidate(topology, topology->tried++);
        topology->connection = redis_connection_new(
            topology->reactor, &topology->asked, &topology->url.tls, CONNECT_MS, &events, topology);
        if (topology->connection) {
            deadline_set(topology->deadline, clock_inner_ms() + CONNECT_MS + ANSWER_MS);
            return;
        }
        snprintf(topology->why, sizeof topology->why, "out of memory");
    }
    end_question(topology, false);
}

/* ---- asking ---- */

static void on_deadline(void *ctx)
{
    struct redis_topology *topology = ctx;
    if (topology->connection) {
        try_next(topology, "does not answer");
    } else if (topology->must_ask) {
        topology->tried = 0;
        put_question(topology);
    } else {
        notify_all(topology);
        if (first_waiting(topology))
            deadline_set(topology->deadline,
                         clock_inner_ms() + (topology->must_ask ? REDIS_WHERE_PAUSE_MS : 0));
    }
}

void redis_topology_ask(struct redis_topology *topology, struct redis_topology_asker *asker,
                        bool fresh)
{
    list_remove(&asker->list);
    list_add_last(&topology->askers, &asker->list);
    asker->waits = true;
    if (topology->url.kind != REDIS_SINGLE && (fresh || !known(topology, asker->slot)))
        topology->must_ask = true;
    if (topology->connection)
        return;
    int64_t now_ms = clock_inner_ms(), first_ms = topology->ended_ms + REDIS_WHERE_PAUSE_MS;
    deadline_set(topology->deadline, topology->must_ask && first_ms > now_ms ? first_ms : now_ms);
}

void redis_topology_leave(struct redis_topology_asker *asker)
{
    list_remove(&asker->list);
    asker->waits = false;
}

void redis_topology_moved(struct redis_topology *topology, uint16_t slot,
                          const struct redis_endpoint *endpoint)
{
    if (topology->url.kind == REDIS_CLUSTER)
        redis_map_set(&topology->map, slot, endpoint);
}

/* ---- deposed masters ----
 *
 * An old master that is still running does not know that it was deposed: it accepts changes until
 * the sentinels make it a replica some 10 s later, which discards all these changes. So its users
 * are notified as soon as one sentinel reports the switch. A switch while no sentinel is connected
 * is missed; the sessions then notice it when the old master becomes a replica. */

/* Removes and returns the next word of `rest`. Empty: no more words. */
static struct slice take_word(struct slice *rest)
{
    const char *space = rest->len ? memchr(rest->at, ' ', rest->len) : NULL;
    size_t len = space ? (size_t)(space - rest->at) : rest->len;
    struct slice word = slice_make(rest->at, len);
    size_t gone = space ? len + 1 : len;
    *rest = slice_make(rest->at + gone, rest->len - gone);
    return word;
}

static bool take_endpoint(struct slice *rest, struct redis_endpoint *out)
{
    struct slice host = take_word(rest), port = take_word(rest);
    return redis_master_endpoint_make(host, port, out);
}

/* Handles "name old-host old-port new-host new-port". */
static void on_switched(void *ctx, struct slice message)
{
    struct redis_topology *topology = ctx;
    struct redis_endpoint from, to;
    if (!slice_is(take_word(&message), topology->url.master) || !take_endpoint(&message, &from) ||
        !take_endpoint(&message, &to))
        return;
    topology->master = to;
    for (struct list *at = topology->askers.next, *next; at != &topology->askers; at = next) {
        struct redis_topology_asker *asker = list_entry(at, struct redis_topology_asker, list);
        next = at->next;
        asker->deposed(asker->ctx, &from);
    }
}

/* Returns the sentinels in turn, until a connection lasts. */
static const struct redis_endpoint *next_sentinel(void *ctx)
{
    struct redis_topology *topology = ctx;
    return &topology->url.hosts[topology->next_sentinel++ % topology->url.host_count];
}

static bool switches_start(struct redis_topology *topology)
{
    struct redis_subscription_options options = {
        .reactor = topology->reactor,
        .tls = &topology->url.tls,
        .user = topology->url.sentinel_user,
        .password = topology->url.sentinel_password,
        .subscribe = "SUBSCRIBE",
        .channel = "+switch-master",
        .connect_ms = CONNECT_MS,
        .where = next_sentinel,
        .message = on_switched,
        .ctx = topology,
    };
    if (!redis_subscription_init(&topology->switches, &options))
        return false;
    redis_subscription_start(&topology->switches);
    return true;
}

/* ---- life cycle ---- */

void redis_topology_free(struct redis_topology *topology)
{
    if (!topology)
        return;
    redis_subscription_fini(&topology->switches);
    redis_connection_free(topology->connection);
    deadline_free(topology->deadline);
    redis_map_fini(&topology->map);
    free(topology);
}

struct redis_topology *redis_topology_new(struct reactor *reactor, const struct redis_url *url)
{
    struct redis_topology *topology = calloc(1, sizeof *topology);
    if (!topology)
        return NULL;
    topology->reactor = reactor;
    topology->url = *url;
    topology->ended_ms = INT64_MIN / 2;
    list_init(&topology->askers);
    topology->deadline = deadline_new(reactor, on_deadline, topology);
    if (!topology->deadline || (url->kind == REDIS_SENTINEL && !switches_start(topology))) {
        redis_topology_free(topology);
        return NULL;
    }
    return topology;
}
