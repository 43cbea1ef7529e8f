/*
 * One question at a time, put to one candidate after the other until one can answer it: the
 * sentinels of the URL, or the nodes of the last map and then those of the URL. Each question
 * begins with another candidate than the one before, so that a node that is cut off from the
 * others, and tells what was, is not believed for ever.
 */
#include "redis/topology.h"

#include "base/clock.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/redis.h"
#include "redis/topology_map.h"
#include "redis/watch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASKERS_MAX = 2 * REDIS_SHARDS_MAX, CONNECT_MS = 1000, ANSWER_MS = 2000, WHY_BYTES = 256 };

struct asker {
    uint16_t slot;
    redis_topology_found *found;
    void *ctx;
};

struct redis_topology {
    struct reactor *reactor;
    struct redis_url url;
    struct deadline *deadline;
    struct asker askers[ASKERS_MAX]; /* in the order they came */
    uint32_t asker_count;
    bool must_ask;
    struct list listeners;
    struct redis_watch *watch; /* sentinel */
    /* what is known */
    struct redis_map map;         /* cluster */
    struct redis_endpoint master; /* sentinel; port 0: not known */
    /* the question under way */
    struct redis_connection *connection; /* NULL: none */
    struct redis_endpoint asked;
    uint32_t tried;
    bool wants_auth_reply;
    char why[WHY_BYTES];
    uint32_t first; /* the candidate the next question begins with */
    int64_t ended_ms;
};

/* ---- what is known ---- */

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

static struct asker take_asker(struct redis_topology *topology)
{
    struct asker asker = topology->askers[0];
    topology->asker_count--;
    memmove(&topology->askers[0], &topology->askers[1], topology->asker_count * sizeof asker);
    return asker;
}

/* Who asks again from within its callback is answered in another turn. */
static void tell_all(struct redis_topology *topology)
{
    topology->must_ask = false;
    for (uint32_t left = topology->asker_count; left && topology->asker_count; left--) {
        struct asker asker = take_asker(topology);
        const struct redis_endpoint *endpoint = known(topology, asker.slot);
        struct redis_endpoint copy;
        if (endpoint)
            copy = *endpoint;
        asker.found(asker.ctx, endpoint ? &copy : NULL, topology->why);
    }
}

/* ---- candidates ---- */

static uint32_t candidate_count(const struct redis_topology *topology)
{
    return topology->url.host_count +
           (topology->url.kind == REDIS_CLUSTER ? topology->map.node_count : 0);
}

static struct redis_endpoint candidate(const struct redis_topology *topology, uint32_t i)
{
    uint32_t nodes = candidate_count(topology) - topology->url.host_count;
    i = (topology->first + i) % (nodes + topology->url.host_count);
    return i < nodes ? topology->map.nodes[i] : topology->url.hosts[i - nodes];
}

/* ---- a question ---- */

static void put_question(struct redis_topology *topology);

static void end_question(struct redis_topology *topology, bool answered)
{
    redis_connection_free(topology->connection);
    topology->connection = NULL;
    topology->ended_ms = clock_inner_ms();
    topology->first += topology->tried;
    if (topology->url.kind == REDIS_SENTINEL && !answered)
        topology->master.port = 0;
    tell_all(topology);
    if (topology->must_ask)
        deadline_set(topology->deadline, topology->ended_ms + REDIS_WHERE_PAUSE_MS);
    else
        deadline_set(topology->deadline, topology->asker_count ? topology->ended_ms : INT64_MAX);
}

static void try_next(struct redis_topology *topology, const char *why)
{
    snprintf(topology->why, sizeof topology->why, "'%.100s' port %u: %.120s", topology->asked.host,
             (unsigned)topology->asked.port, why);
    redis_connection_free(topology->connection);
    topology->connection = NULL;
    put_question(topology);
}

static bool read_master(struct redis_topology *topology, const redisReply *reply)
{
    uint64_t port = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return false;
    const redisReply *host = reply->element[0], *number = reply->element[1];
    if (host->type != REDIS_REPLY_STRING || host->len == 0 || host->len >= REDIS_HOST_BYTES ||
        number->type != REDIS_REPLY_STRING)
        return false;
    port = strtoull(number->str, NULL, 10);
    if (port == 0 || port > UINT16_MAX)
        return false;
    memcpy(topology->master.host, host->str, (size_t)host->len + 1);
    topology->master.port = (uint16_t)port;
    return true;
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
            try_next(topology, "knows no slots of a cluster");
            return;
        }
        snprintf(topology->why, sizeof topology->why, "no node serves the slot");
    } else if (!read_master(topology, reply)) {
        try_next(topology, "this sentinel does not know the master");
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

    topology->wants_auth_reply = *password != 0;
    if (*password && *user)
        redis_command_words(out, "AUTH", user, password, NULL);
    else if (*password)
        redis_command_words(out, "AUTH", password, NULL);
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
        topology->connection = redis_connection_new(topology->reactor, &topology->asked, CONNECT_MS,
                                                    &events, topology);
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
        tell_all(topology);
        if (topology->asker_count)
            deadline_set(topology->deadline,
                         clock_inner_ms() + (topology->must_ask ? REDIS_WHERE_PAUSE_MS : 0));
    }
}

void redis_topology_ask(struct redis_topology *topology, uint16_t slot, bool fresh,
                        redis_topology_found *found, void *ctx)
{
    assert(topology->asker_count < ASKERS_MAX);
    topology->askers[topology->asker_count++] = (struct asker){slot, found, ctx};
    if (topology->url.kind != REDIS_SINGLE && (fresh || !known(topology, slot)))
        topology->must_ask = true;
    if (topology->connection)
        return;
    int64_t now_ms = clock_inner_ms(), first_ms = topology->ended_ms + REDIS_WHERE_PAUSE_MS;
    deadline_set(topology->deadline, topology->must_ask && first_ms > now_ms ? first_ms : now_ms);
}

void redis_topology_forget(struct redis_topology *topology, void *ctx)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < topology->asker_count; i++)
        if (topology->askers[i].ctx != ctx)
            topology->askers[kept++] = topology->askers[i];
    topology->asker_count = kept;
}

void redis_topology_moved(struct redis_topology *topology, uint16_t slot,
                          const struct redis_endpoint *endpoint)
{
    if (topology->url.kind == REDIS_CLUSTER)
        redis_map_set(&topology->map, slot, endpoint);
}

/* ---- listening ---- */

static void on_switched(void *ctx, const struct redis_endpoint *from,
                        const struct redis_endpoint *to)
{
    struct redis_topology *topology = ctx;
    topology->master = *to;
    for (struct list *at = topology->listeners.next, *next; at != &topology->listeners; at = next) {
        struct redis_topology_listener *listener =
            list_entry(at, struct redis_topology_listener, list);
        next = at->next;
        listener->deposed(listener->ctx, from);
    }
}

void redis_topology_listen(struct redis_topology *topology,
                           struct redis_topology_listener *listener)
{
    list_add_last(&topology->listeners, &listener->list);
}

void redis_topology_unlisten(struct redis_topology_listener *listener)
{
    list_remove(&listener->list);
}

/* ---- life ---- */

struct redis_topology *redis_topology_new(struct reactor *reactor, const struct redis_url *url)
{
    struct redis_topology *topology = calloc(1, sizeof *topology);
    if (!topology)
        return NULL;
    topology->reactor = reactor;
    topology->url = *url;
    topology->ended_ms = INT64_MIN / 2;
    redis_map_init(&topology->map);
    list_init(&topology->listeners);
    topology->deadline = deadline_new(reactor, on_deadline, topology);
    if (url->kind == REDIS_SENTINEL)
        topology->watch = redis_watch_new(reactor, &topology->url, on_switched, topology);
    if (!topology->deadline || (url->kind == REDIS_SENTINEL && !topology->watch)) {
        redis_topology_free(topology);
        return NULL;
    }
    return topology;
}

void redis_topology_free(struct redis_topology *topology)
{
    if (!topology)
        return;
    redis_watch_free(topology->watch);
    redis_connection_free(topology->connection);
    deadline_free(topology->deadline);
    redis_map_fini(&topology->map);
    free(topology);
}
