/*
 * One question at a time, put to one candidate after the other until one can answer it: the
 * sentinels of the URL, or the nodes of the last map and then those of the URL. Each question
 * begins with another candidate than the one before, so that a node that is cut off from the
 * others, and tells what was, is not believed for ever.
 */
#include "redis/where.h"

#include "base/clock.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/redis.h"
#include "redis/watch.h"
#include "redis/where_map.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASKERS_MAX = 2 * REDIS_SHARDS_MAX, CONNECT_MS = 1000, ANSWER_MS = 2000, WHY_BYTES = 256 };

struct asker {
    uint16_t slot;
    redis_where_found *found;
    void *ctx;
};

struct redis_where {
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

static const struct redis_endpoint *known(const struct redis_where *where, uint16_t slot)
{
    switch (where->url.kind) {
    case REDIS_SINGLE:
        return &where->url.hosts[0];
    case REDIS_SENTINEL:
        return where->master.port ? &where->master : NULL;
    case REDIS_CLUSTER:
        break;
    }
    return redis_map_find(&where->map, slot);
}

static struct asker take_asker(struct redis_where *where)
{
    struct asker asker = where->askers[0];
    where->asker_count--;
    memmove(&where->askers[0], &where->askers[1], where->asker_count * sizeof asker);
    return asker;
}

/* Who asks again from within its callback is answered in another turn. */
static void tell_all(struct redis_where *where)
{
    where->must_ask = false;
    for (uint32_t left = where->asker_count; left && where->asker_count; left--) {
        struct asker asker = take_asker(where);
        const struct redis_endpoint *endpoint = known(where, asker.slot);
        struct redis_endpoint copy;
        if (endpoint)
            copy = *endpoint;
        asker.found(asker.ctx, endpoint ? &copy : NULL, where->why);
    }
}

/* ---- candidates ---- */

static uint32_t candidate_count(const struct redis_where *where)
{
    return where->url.host_count + (where->url.kind == REDIS_CLUSTER ? where->map.node_count : 0);
}

static struct redis_endpoint candidate(const struct redis_where *where, uint32_t i)
{
    uint32_t nodes = candidate_count(where) - where->url.host_count;
    i = (where->first + i) % (nodes + where->url.host_count);
    return i < nodes ? where->map.nodes[i] : where->url.hosts[i - nodes];
}

/* ---- a question ---- */

static void put_question(struct redis_where *where);

static void end_question(struct redis_where *where, bool answered)
{
    redis_connection_free(where->connection);
    where->connection = NULL;
    where->ended_ms = clock_inner_ms();
    where->first += where->tried;
    if (where->url.kind == REDIS_SENTINEL && !answered)
        where->master.port = 0;
    tell_all(where);
    if (where->must_ask)
        deadline_set(where->deadline, where->ended_ms + REDIS_WHERE_PAUSE_MS);
    else
        deadline_set(where->deadline, where->asker_count ? where->ended_ms : INT64_MAX);
}

static void try_next(struct redis_where *where, const char *why)
{
    snprintf(where->why, sizeof where->why, "'%.100s' port %u: %.120s", where->asked.host,
             (unsigned)where->asked.port, why);
    redis_connection_free(where->connection);
    where->connection = NULL;
    put_question(where);
}

static bool read_master(struct redis_where *where, const redisReply *reply)
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
    memcpy(where->master.host, host->str, (size_t)host->len + 1);
    where->master.port = (uint16_t)port;
    return true;
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct redis_where *where = ctx;
    if (reply->type == REDIS_REPLY_ERROR) {
        try_next(where, reply->str);
        return;
    }
    if (where->wants_auth_reply) {
        where->wants_auth_reply = false;
        return;
    }
    if (where->url.kind == REDIS_CLUSTER) {
        if (!redis_map_read(&where->map, reply, &where->asked)) {
            try_next(where, "knows no slots of a cluster");
            return;
        }
        snprintf(where->why, sizeof where->why, "no node serves the slot");
    } else if (!read_master(where, reply)) {
        try_next(where, "this sentinel does not know the master");
        return;
    }
    end_question(where, true);
}

static void on_up(void *ctx)
{
    struct redis_where *where = ctx;
    bool sentinel = where->url.kind == REDIS_SENTINEL;
    const char *user = sentinel ? where->url.sentinel_user : where->url.user;
    const char *password = sentinel ? where->url.sentinel_password : where->url.password;
    struct buffer *out = redis_connection_out(where->connection);

    where->wants_auth_reply = *password != 0;
    if (*password && *user)
        redis_command_words(out, "AUTH", user, password, NULL);
    else if (*password)
        redis_command_words(out, "AUTH", password, NULL);
    if (sentinel)
        redis_command_words(out, "SENTINEL", "get-master-addr-by-name", where->url.master, NULL);
    else
        redis_command_words(out, "CLUSTER", "SLOTS", NULL);
}

static void on_down(void *ctx, const char *why)
{
    try_next(ctx, why);
}

static void put_question(struct redis_where *where)
{
    static const struct redis_connection_events events = {
        .up = on_up, .down = on_down, .reply = on_reply};
    while (where->tried < candidate_count(where)) {
        where->asked = candidate(where, where->tried++);
        where->connection =
            redis_connection_new(where->reactor, &where->asked, CONNECT_MS, &events, where);
        if (where->connection) {
            deadline_set(where->deadline, clock_inner_ms() + CONNECT_MS + ANSWER_MS);
            return;
        }
        snprintf(where->why, sizeof where->why, "out of memory");
    }
    end_question(where, false);
}

/* ---- asking ---- */

static void on_deadline(void *ctx)
{
    struct redis_where *where = ctx;
    if (where->connection) {
        try_next(where, "does not answer");
    } else if (where->must_ask) {
        where->tried = 0;
        put_question(where);
    } else {
        tell_all(where);
        if (where->asker_count)
            deadline_set(where->deadline,
                         clock_inner_ms() + (where->must_ask ? REDIS_WHERE_PAUSE_MS : 0));
    }
}

void redis_where_ask(struct redis_where *where, uint16_t slot, bool fresh, redis_where_found *found,
                     void *ctx)
{
    assert(where->asker_count < ASKERS_MAX);
    where->askers[where->asker_count++] = (struct asker){slot, found, ctx};
    if (where->url.kind != REDIS_SINGLE && (fresh || !known(where, slot)))
        where->must_ask = true;
    if (where->connection)
        return;
    int64_t now_ms = clock_inner_ms(), first_ms = where->ended_ms + REDIS_WHERE_PAUSE_MS;
    deadline_set(where->deadline, where->must_ask && first_ms > now_ms ? first_ms : now_ms);
}

void redis_where_forget(struct redis_where *where, void *ctx)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < where->asker_count; i++)
        if (where->askers[i].ctx != ctx)
            where->askers[kept++] = where->askers[i];
    where->asker_count = kept;
}

void redis_where_moved(struct redis_where *where, uint16_t slot,
                       const struct redis_endpoint *endpoint)
{
    if (where->url.kind == REDIS_CLUSTER)
        redis_map_set(&where->map, slot, endpoint);
}

/* ---- listening ---- */

static void on_switched(void *ctx, const struct redis_endpoint *from,
                        const struct redis_endpoint *to)
{
    struct redis_where *where = ctx;
    where->master = *to;
    for (struct list *at = where->listeners.next, *next; at != &where->listeners; at = next) {
        struct redis_where_listener *listener = list_entry(at, struct redis_where_listener, list);
        next = at->next;
        listener->deposed(listener->ctx, from);
    }
}

void redis_where_listen(struct redis_where *where, struct redis_where_listener *listener)
{
    list_add_last(&where->listeners, &listener->list);
}

void redis_where_unlisten(struct redis_where_listener *listener)
{
    list_remove(&listener->list);
}

/* ---- life ---- */

struct redis_where *redis_where_new(struct reactor *reactor, const struct redis_url *url)
{
    struct redis_where *where = calloc(1, sizeof *where);
    if (!where)
        return NULL;
    where->reactor = reactor;
    where->url = *url;
    where->ended_ms = INT64_MIN / 2;
    redis_map_init(&where->map);
    list_init(&where->listeners);
    where->deadline = deadline_new(reactor, on_deadline, where);
    if (url->kind == REDIS_SENTINEL)
        where->watch = redis_watch_new(reactor, &where->url, on_switched, where);
    if (!where->deadline || (url->kind == REDIS_SENTINEL && !where->watch)) {
        redis_where_free(where);
        return NULL;
    }
    return where;
}

void redis_where_free(struct redis_where *where)
{
    if (!where)
        return;
    redis_watch_free(where->watch);
    redis_connection_free(where->connection);
    deadline_free(where->deadline);
    redis_map_fini(&where->map);
    free(where);
}
