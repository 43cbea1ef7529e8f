/*
 * The quota of topics. A topic with as many loaded jobs as it may have is held: what comes up of it
 * is passed by. It is refilled from there when half of them are gone, and held no longer once
 * nothing is left there. Topics that share the memory for waiting jobs share it evenly.
 */
#include "local/preload_private.h"

#include <stdlib.h>

enum {
    TABLE_FIRST = 256,
    WAITING_MAX = 1000000,
    QUOTA_MIN = 1024,
    USE_AT_ONCE = 16,
    RESTART_AFTER_MS = 1000
};

/* ---- the table ---- */

static struct preload_topic **bucket(struct preload_topic **table, uint32_t size, struct slice name)
{
    return &table[hash_64(name.at, name.len) & (size - 1)];
}

static bool grow(struct preload *preload)
{
    uint32_t size = preload->table_size ? preload->table_size * 2 : TABLE_FIRST;
    struct preload_topic **table = calloc(size, sizeof(struct preload_topic *));

    if (!table)
        return preload->table_size != 0; /* slower is good enough */
    for (uint32_t i = 0; i < preload->table_size; i++)
        for (struct preload_topic *at = preload->table[i], *next; at; at = next) {
            struct preload_topic **into = bucket(table, size, at->name);
            next = at->chain;
            at->chain = *into;
            *into = at;
        }
    free((void *)preload->table);
    preload->table = table;
    preload->table_size = size;
    return true;
}

static struct preload_topic *topic_new(struct slice name)
{
    struct preload_topic *topic = calloc(1, sizeof *topic + name.len);

    if (!topic)
        return NULL;
    char *text = (char *)(topic + 1);
    memcpy(text, name.at, name.len);
    topic->name = slice_make(text, name.len);
    list_init(&topic->list);
    list_init(&topic->changed);
    list_init(&topic->places);
    return topic;
}

struct preload_topic *preload_topic_get(struct preload *preload, struct slice name)
{
    if (preload->topic_count >= preload->table_size && !grow(preload))
        return NULL;
    struct preload_topic **into = bucket(preload->table, preload->table_size, name);
    struct preload_topic *topic = *into;
    while (topic && !slice_equals(topic->name, name))
        topic = topic->chain;
    if (!topic) {
        topic = topic_new(name);
        if (!topic)
            return NULL;
        topic->chain = *into;
        *into = topic;
        preload->topic_count++;
    }
    topic->places_of++;
    return topic;
}

void preload_topic_put(struct preload *preload, struct preload_topic *topic)
{
    if (--topic->places_of)
        return;
    struct preload_topic **at = bucket(preload->table, preload->table_size, topic->name);
    while (*at != topic)
        at = &(*at)->chain;
    *at = topic->chain;
    preload->topic_count--;
    if (topic->in_use)
        preload->in_use--;
    if (topic->told)
        engine_set_cold_ready(preload->shard->engine, topic->name, 0);
    list_remove(&topic->list);
    list_remove(&topic->changed);
    free(topic);
}

/* ---- the quota ---- */

uint64_t preload_topic_quota(const struct preload *preload)
{
    uint64_t share = WAITING_MAX / (preload->in_use ? preload->in_use : 1);

    if (share < QUOTA_MIN)
        share = QUOTA_MIN;
    return share < preload->quota ? share : preload->quota;
}

uint64_t preload_topic_loaded(struct preload *preload, struct preload_topic *topic)
{
    return engine_loaded_of(preload->shard->engine, topic->name) + topic->reading;
}

void preload_topic_hold(struct preload *preload, struct preload_topic *topic)
{
    if (topic->held)
        return;
    topic->held = true;
    topic->refilling = false;
    list_add_last(&preload->held, &topic->list);
    preload_topic_use(preload, topic);
}

void preload_topic_use(struct preload *preload, struct preload_topic *topic)
{
    if (!topic->in_use)
        preload->in_use++;
    topic->in_use = true;
}

/* A few buckets of the table a call. */
static void look_for_unused(struct preload *preload)
{
    for (int left = USE_AT_ONCE; left && preload->table_size; left--) {
        struct preload_topic *topic = preload->table[preload->use_at++ & (preload->table_size - 1)];
        for (; topic; topic = topic->chain)
            if (topic->in_use && !topic->held && !preload_topic_loaded(preload, topic)) {
                topic->in_use = false;
                preload->in_use--;
            }
    }
}

/* Whether it is its turn to be refilled. */
static bool look_at(struct preload *preload, struct preload_topic *topic, uint64_t quota)
{
    uint64_t loaded = preload_topic_loaded(preload, topic);

    if (loaded >= quota)
        topic->refilling = false;
    else if (loaded < (quota + 1) / 2)
        topic->refilling = true;
    if (!topic->refilling || !list_is_empty(&topic->places))
        return topic->refilling;
    topic->held = false;
    list_remove(&topic->list);
    return false;
}

struct preload_topic *preload_topic_to_refill(struct preload *preload)
{
    uint64_t quota = preload_topic_quota(preload);
    struct preload_topic *found = NULL;

    look_for_unused(preload);
    for (struct list *at = preload->held.next, *next; at != &preload->held; at = next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        next = at->next;
        if (look_at(preload, topic, quota) && !found)
            found = topic;
    }
    if (found) { /* the others' turn comes before it has another */
        list_remove(&found->list);
        list_add_last(&preload->held, &found->list);
    }
    return found;
}

/* ---- what is due of what was passed by ---- */

void preload_topic_changed(struct preload *preload, struct preload_topic *topic)
{
    if (list_is_empty(&topic->changed))
        list_add_last(&preload->changed, &topic->changed);
}

static void restart_at(struct preload *preload, struct preload_topic *topic, int64_t at_ms)
{
    topic->restart = preload->restarts = true;
    preload->restart_ms = at_ms;
}

static void come_due(struct preload *preload, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    for (struct list *at = preload->held.next; at != &preload->held; at = at->next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        for (struct list *in = topic->places.next; in != &topic->places; in = in->next) {
            struct preload_place *place = list_entry(in, struct preload_place, list);
            int64_t place_ms = preload_place_due(preload, place, now_ms);
            if (place_ms < next_ms)
                next_ms = place_ms;
        }
    }
    preload->due_next_ms = next_ms;
}

void preload_topics_tell(struct preload *preload, struct engine_now now)
{
    if (preload->due_next_ms <= now.inner_ms)
        come_due(preload, now.inner_ms);
    while (!list_is_empty(&preload->changed)) {
        struct preload_topic *topic =
            list_entry(preload->changed.next, struct preload_topic, changed);
        uint64_t due = topic->noted - topic->waiting + topic->carried;
        due -= topic->mixed < due ? topic->mixed : due;
        list_remove(&topic->changed);
        engine_set_cold_ready(preload->shard->engine, topic->name, due);
        topic->told = due;
    }
}

void preload_topics_caught_up(struct preload *preload, struct engine_now now)
{
    if (!preload->carries && !preload->joins)
        return;
    preload->carries = preload->joins = false;
    for (uint32_t i = 0; i < preload->table_size; i++)
        for (struct preload_topic *topic = preload->table[i]; topic; topic = topic->chain) {
            if (topic->carried)
                preload_topic_changed(preload, topic);
            topic->carried = 0;
            if (topic->joined && topic->held)
                restart_at(preload, topic, now.inner_ms);
            topic->joined = false;
        }
}

void preload_topics_ask(struct preload *preload)
{
    for (struct list *at = preload->held.next; at != &preload->held; at = at->next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        uint64_t counted = engine_cold_ready(preload->shard->engine, topic->name);
        if (counted < topic->told)
            topic->mixed += topic->told - counted;
        else
            topic->mixed -=
                counted - topic->told < topic->mixed ? counted - topic->told : topic->mixed;
        topic->told = counted;
    }
}

/* ---- evicted ---- */

/* What is shown as ready is more than what the engine goes by, the ready ones in memory: looking
 * once too often does no harm. */
void preload_topics_over(struct preload *preload, uint64_t max, struct engine_now now)
{
    struct queue_topic shown;

    for (uint32_t i = 0; i < preload->table_size; i++)
        for (struct preload_topic *topic = preload->table[i]; topic; topic = topic->chain)
            if (engine_topic_show(preload->shard->engine, topic->name, now, &shown) &&
                shown.counts.ready > max)
                restart_at(preload, topic, now.inner_ms + RESTART_AFTER_MS);
}

/* Whether any of it that was passed by is due by the wall clock. */
static bool has_wall(const struct preload_topic *topic)
{
    for (struct list *at = topic->places.next; at != &topic->places; at = at->next)
        if (preload_place_has_wall(list_entry(at, struct preload_place, list)))
            return true;
    return false;
}

void preload_topics_stepped(struct preload *preload, struct engine_now now)
{
    for (struct list *at = preload->held.next; at != &preload->held; at = at->next) {
        struct preload_topic *topic = list_entry(at, struct preload_topic, list);
        if (!has_wall(topic))
            continue;
        restart_at(preload, topic, now.inner_ms);
    }
}

/* All that is in memory of it lies in what is going to be noted, where it is held. */
static void restarted(struct preload *preload, struct preload_topic *topic)
{
    topic->mixed = 0;
    if (preload_topic_loaded(preload, topic) >= preload_topic_quota(preload))
        preload_topic_hold(preload, topic);
    if (topic->held)
        topic->mixed = engine_loaded_of(preload->shard->engine, topic->name);
}

void preload_topics_restart(struct preload *preload, struct engine_now now)
{
    if (!preload->restarts || now.inner_ms < preload->restart_ms)
        return;
    for (uint32_t i = 0; i < preload->table_size; i++)
        for (struct preload_topic *topic = preload->table[i]; topic; topic = topic->chain) {
            topic->restart_now = topic->restart;
            topic->restart = false;
        }
    preload->restarts = false;
    preload_runs_restart(preload);
    for (uint32_t i = 0; i < preload->table_size; i++)
        for (struct preload_topic *topic = preload->table[i]; topic; topic = topic->chain) {
            if (topic->restart_now)
                restarted(preload, topic);
            topic->restart_now = false;
        }
}
