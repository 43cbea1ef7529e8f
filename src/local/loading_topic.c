/*
 * The quota of topics. A topic with as many loaded jobs as it may have is held: what comes up of it
 * is passed by. It is refilled from there when half of them are gone, and held no longer once
 * nothing is left there. Topics that share the memory for waiting jobs share it evenly.
 */
#include "local/loading_private.h"

#include <stdlib.h>

enum {
    TABLE_FIRST = 256,
    WAITING_MAX = 1000000,
    QUOTA_MIN = 1024,
    USE_AT_ONCE = 16,
    RESTART_AFTER_MS = 1000
};

/* ---- the table ---- */

static struct loading_topic **bucket(struct loading_topic **table, uint32_t size, struct slice name)
{
    return &table[hash_64(name.at, name.len) & (size - 1)];
}

static bool grow(struct loading *loading)
{
    uint32_t size = loading->table_size ? loading->table_size * 2 : TABLE_FIRST;
    struct loading_topic **table = calloc(size, sizeof(struct loading_topic *));

    if (!table)
        return loading->table_size != 0; /* slower is good enough */
    for (uint32_t i = 0; i < loading->table_size; i++)
        for (struct loading_topic *at = loading->table[i], *next; at; at = next) {
            struct loading_topic **into = bucket(table, size, at->name);
            next = at->chain;
            at->chain = *into;
            *into = at;
        }
    free((void *)loading->table);
    loading->table = table;
    loading->table_size = size;
    return true;
}

static struct loading_topic *topic_new(struct slice name)
{
    struct loading_topic *topic = calloc(1, sizeof *topic + name.len);

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

struct loading_topic *loading_topic_get(struct loading *loading, struct slice name)
{
    if (loading->topic_count >= loading->table_size && !grow(loading))
        return NULL;
    struct loading_topic **into = bucket(loading->table, loading->table_size, name);
    struct loading_topic *topic = *into;
    while (topic && !slice_equals(topic->name, name))
        topic = topic->chain;
    if (!topic) {
        topic = topic_new(name);
        if (!topic)
            return NULL;
        topic->chain = *into;
        *into = topic;
        loading->topic_count++;
    }
    topic->places_of++;
    return topic;
}

void loading_topic_put(struct loading *loading, struct loading_topic *topic)
{
    if (--topic->places_of)
        return;
    struct loading_topic **at = bucket(loading->table, loading->table_size, topic->name);
    while (*at != topic)
        at = &(*at)->chain;
    *at = topic->chain;
    loading->topic_count--;
    if (topic->in_use)
        loading->in_use--;
    if (topic->told)
        engine_set_far_ready(loading->shard->engine, topic->name, 0);
    list_remove(&topic->list);
    list_remove(&topic->changed);
    free(topic);
}

/* ---- the quota ---- */

uint64_t loading_topic_quota(const struct loading *loading)
{
    uint64_t share = WAITING_MAX / (loading->in_use ? loading->in_use : 1);

    if (share < QUOTA_MIN)
        share = QUOTA_MIN;
    return share < loading->quota ? share : loading->quota;
}

uint64_t loading_topic_loaded(struct loading *loading, struct loading_topic *topic)
{
    return engine_loaded_of(loading->shard->engine, topic->name) + topic->reading;
}

void loading_topic_hold(struct loading *loading, struct loading_topic *topic)
{
    if (topic->held)
        return;
    topic->held = true;
    topic->refilling = false;
    list_add_last(&loading->held, &topic->list);
    loading_topic_use(loading, topic);
}

void loading_topic_use(struct loading *loading, struct loading_topic *topic)
{
    if (!topic->in_use)
        loading->in_use++;
    topic->in_use = true;
}

/* A few buckets of the table a call. */
static void look_for_unused(struct loading *loading)
{
    for (int left = USE_AT_ONCE; left && loading->table_size; left--) {
        struct loading_topic *topic = loading->table[loading->use_at++ & (loading->table_size - 1)];
        for (; topic; topic = topic->chain)
            if (topic->in_use && !topic->held && !loading_topic_loaded(loading, topic)) {
                topic->in_use = false;
                loading->in_use--;
            }
    }
}

/* Whether it is its turn to be refilled. */
static bool look_at(struct loading *loading, struct loading_topic *topic, uint64_t quota)
{
    uint64_t loaded = loading_topic_loaded(loading, topic);

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

struct loading_topic *loading_topic_to_refill(struct loading *loading)
{
    uint64_t quota = loading_topic_quota(loading);
    struct loading_topic *found = NULL;

    look_for_unused(loading);
    for (struct list *at = loading->held.next, *next; at != &loading->held; at = next) {
        struct loading_topic *topic = list_entry(at, struct loading_topic, list);
        next = at->next;
        if (look_at(loading, topic, quota) && !found)
            found = topic;
    }
    if (found) { /* the others' turn comes before it has another */
        list_remove(&found->list);
        list_add_last(&loading->held, &found->list);
    }
    return found;
}

/* ---- what is due of what was passed by ---- */

void loading_topic_changed(struct loading *loading, struct loading_topic *topic)
{
    if (list_is_empty(&topic->changed))
        list_add_last(&loading->changed, &topic->changed);
}

static void restart_at(struct loading *loading, struct loading_topic *topic, int64_t at_ms)
{
    topic->restart = loading->restarts = true;
    loading->restart_ms = at_ms;
}

static void come_due(struct loading *loading, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    for (struct list *at = loading->held.next; at != &loading->held; at = at->next) {
        struct loading_topic *topic = list_entry(at, struct loading_topic, list);
        for (struct list *in = topic->places.next; in != &topic->places; in = in->next) {
            struct loading_place *place = list_entry(in, struct loading_place, list);
            int64_t place_ms = loading_place_due(loading, place, now_ms);
            if (place_ms < next_ms)
                next_ms = place_ms;
        }
    }
    loading->due_next_ms = next_ms;
}

void loading_topics_tell(struct loading *loading, struct engine_now now)
{
    if (loading->due_next_ms <= now.inner_ms)
        come_due(loading, now.inner_ms);
    while (!list_is_empty(&loading->changed)) {
        struct loading_topic *topic =
            list_entry(loading->changed.next, struct loading_topic, changed);
        uint64_t due = topic->noted - topic->waiting + topic->carried;
        due -= topic->mixed < due ? topic->mixed : due;
        list_remove(&topic->changed);
        engine_set_far_ready(loading->shard->engine, topic->name, due);
        topic->told = due;
    }
}

void loading_topics_caught_up(struct loading *loading, struct engine_now now)
{
    if (!loading->carries && !loading->joins)
        return;
    loading->carries = loading->joins = false;
    for (uint32_t i = 0; i < loading->table_size; i++)
        for (struct loading_topic *topic = loading->table[i]; topic; topic = topic->chain) {
            if (topic->carried)
                loading_topic_changed(loading, topic);
            topic->carried = 0;
            if (topic->joined && topic->held)
                restart_at(loading, topic, now.inner_ms);
            topic->joined = false;
        }
}

void loading_topics_ask(struct loading *loading)
{
    for (struct list *at = loading->held.next; at != &loading->held; at = at->next) {
        struct loading_topic *topic = list_entry(at, struct loading_topic, list);
        uint64_t counted = engine_far_ready(loading->shard->engine, topic->name);
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
void loading_topics_over(struct loading *loading, uint64_t max, struct engine_now now)
{
    struct queue_topic shown;

    for (uint32_t i = 0; i < loading->table_size; i++)
        for (struct loading_topic *topic = loading->table[i]; topic; topic = topic->chain)
            if (engine_topic_show(loading->shard->engine, topic->name, now, &shown) &&
                shown.counts.ready > max)
                restart_at(loading, topic, now.inner_ms + RESTART_AFTER_MS);
}

/* Whether any of it that was passed by is due by the wall clock. */
static bool has_wall(const struct loading_topic *topic)
{
    for (struct list *at = topic->places.next; at != &topic->places; at = at->next)
        if (loading_place_has_wall(list_entry(at, struct loading_place, list)))
            return true;
    return false;
}

void loading_topics_stepped(struct loading *loading, struct engine_now now)
{
    for (struct list *at = loading->held.next; at != &loading->held; at = at->next) {
        struct loading_topic *topic = list_entry(at, struct loading_topic, list);
        if (!has_wall(topic))
            continue;
        restart_at(loading, topic, now.inner_ms);
    }
}

/* All that is in memory of it lies in what is going to be noted, where it is held. */
static void restarted(struct loading *loading, struct loading_topic *topic)
{
    topic->mixed = 0;
    if (loading_topic_loaded(loading, topic) >= loading_topic_quota(loading))
        loading_topic_hold(loading, topic);
    if (topic->held)
        topic->mixed = engine_loaded_of(loading->shard->engine, topic->name);
}

void loading_topics_restart(struct loading *loading, struct engine_now now)
{
    if (!loading->restarts || now.inner_ms < loading->restart_ms)
        return;
    for (uint32_t i = 0; i < loading->table_size; i++)
        for (struct loading_topic *topic = loading->table[i]; topic; topic = topic->chain) {
            topic->restart_now = topic->restart;
            topic->restart = false;
        }
    loading->restarts = false;
    loading_runs_restart(loading);
    for (uint32_t i = 0; i < loading->table_size; i++)
        for (struct loading_topic *topic = loading->table[i]; topic; topic = topic->chain) {
            if (topic->restart_now)
                restarted(loading, topic);
            topic->restart_now = false;
        }
}
