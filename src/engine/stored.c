/* Cold jobs: how many there are of each topic, into memory and out of it. */
#include "engine/private.h"

#include <assert.h>

bool engine_stored_begin(struct engine *engine, struct slice name, const uint64_t stored[SECTIONS],
                         uint64_t dead_bytes)
{
    struct topic *topic = engine_topic_find(engine, name);
    assert(engine->recovering);
    if (!topic && engine_topic_make(engine, name, &topic) != QUEUE_OK)
        return false;
    memcpy(topic->stored, stored, sizeof topic->stored);
    topic->stored_dead_bytes = dead_bytes;
    return true;
}

bool engine_stored_next(const struct engine *engine, uint32_t *at, struct slice *name,
                        uint64_t stored[SECTIONS], uint64_t *dead_bytes)
{
    while (*at < engine->topic_top) {
        const struct topic *topic = engine->topics[++*at];
        uint64_t sum = 0;
        for (int section = 0; topic && section < SECTIONS; section++)
            sum += topic->stored[section];
        if (!sum)
            continue;
        *name = topic->name;
        memcpy(stored, topic->stored, sizeof topic->stored);
        *dead_bytes = topic->stored_dead_bytes;
        return true;
    }
    return false;
}

/* ---- looking ---- */

bool engine_knows(const struct engine *engine, struct hash128 key)
{
    return engine_index_find(engine, key) != 0;
}

void engine_know(const struct engine *engine, const struct hash128 *keys, size_t count, bool *knows)
{
    enum { AHEAD = 4 };
    for (size_t i = 0; i < count; i++)
        engine_index_prefetch(engine, keys[i].low);
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            engine_index_prefetch_entry(engine, keys[i + AHEAD].low);
        knows[i] = engine_knows(engine, keys[i]);
    }
}

struct hash128 engine_key(const struct engine *engine, struct slice topic, struct slice id)
{
    return hash_pair(topic, id, engine->hash_seed);
}

uint64_t engine_loaded_of(struct engine *engine, struct slice name)
{
    const struct topic *topic = engine_topic_lookup(engine, name);
    return topic ? topic->waiting : 0;
}

void engine_set_cold_ready(struct engine *engine, struct slice name, uint64_t count)
{
    struct topic *topic = engine_topic_lookup(engine, name);
    if (topic)
        topic->cold_ready = count;
}

uint64_t engine_cold_ready(struct engine *engine, struct slice name)
{
    const struct topic *topic = engine_topic_lookup(engine, name);
    return topic ? topic->cold_ready : 0;
}

uint64_t engine_entries(const struct engine *engine)
{
    return engine->entries.live;
}

/* ---- loading ---- */

/* An id was remembered, its time ran out, which no record tells, and it was pushed anew: after a
 * restart its slot is still there. */
static void drop_outlived(struct engine *engine, uint32_t id, const struct record *record,
                          struct record_place place)
{
    const struct entry *entry = entry_at(engine, id);
    if (record->kind == RECORD_DONE && !entry->is_stub && entry->sequence != record->done.sequence)
        engine_slot_release(engine, entry_topic(engine, entry), place);
}

enum engine_loaded engine_load(struct engine *engine, const struct record *record,
                               struct record_place place, struct engine_now now)
{
    bool is_job = record->kind == RECORD_JOB;
    const struct job *job = &record->job;
    struct slice name = is_job ? job->topic : record->done.topic;
    struct hash128 key =
        is_job ? hash_pair(job->topic, job->id, engine->hash_seed) : record->done.key;
    uint32_t id = engine_index_find(engine, key);
    assert(is_job || record->kind == RECORD_DONE);
    if (id) {
        drop_outlived(engine, id, record, place);
        return ENGINE_IS_IN_MEMORY;
    }
    struct topic *topic = engine_topic_lookup(engine, name);
    assert(topic); /* it counts the slot */
    id = entry_new(engine, topic, key);
    if (!id)
        return ENGINE_NO_MEMORY;
    struct entry *entry = entry_at(engine, id);
    if (is_job && !entry_from_job(engine, entry, job)) {
        entry_discard(engine, id);
        return ENGINE_NO_MEMORY;
    }
    if (!is_job) {
        entry->sequence = record->done.sequence & 0xffffffffffffffu;
        entry_set_times(entry, record->done.remember_until_ms, false, 0, 0);
    }
    int64_t when_ms;
    entry_settle(engine, entry, place, job_section_of_record(record, now.skew_ms, &when_ms));
    entry_hang(engine, id, is_job ? job->state : JOB_FINISHED, now);
    if (entry->state == JOB_READY && topic->cold_ready)
        topic->cold_ready--;
    return ENGINE_LOADED;
}

/* ---- eviction ---- */

static bool may_go(const struct engine *engine, const struct entry *entry, int64_t keep_until_ms,
                   uint64_t ready_max, struct engine_now now)
{
    if (!record_place_is_run(entry->place) || entry->state_file || entry->is_collected)
        return false;
    switch ((enum job_state)entry->state) {
    case JOB_DELAYED:
        return entry_due_inner_ms(entry, now.skew_ms) > keep_until_ms;
    case JOB_READY:
        return entry_topic(engine, entry)->ready_count > ready_max;
    case JOB_FINISHED:
        return (int64_t)entry->due_ms > keep_until_ms;
    case JOB_DEAD:
        return true;
    case JOB_LEASED:
        break;
    }
    return false;
}

static void evict(struct engine *engine, uint32_t id)
{
    struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    topic->cold_ready += entry->state == JOB_READY;
    entry_unhang(engine, id);
    topic->loaded[entry->section]--;
    if (entry->section == SECTION_DEAD)
        topic->loaded_dead_bytes -= entry->place.bytes;
    entry_discard(engine, id);
}

enum { EVICT_AHEAD = 8 };

/* What evicting will touch: its bucket, and its neighbours in the wheel's slot. */
static void prefetch_hung(const struct engine *engine, uint32_t id)
{
    const struct entry *entry = entry_at(engine, id);
    if (!entry->state)
        return;
    engine_index_prefetch(engine, entry->key.low);
    if (entry->timer.prev)
        __builtin_prefetch(entry_at(engine, entry->timer.prev), 1);
    if (entry->timer.next)
        __builtin_prefetch(entry_at(engine, entry->timer.next), 1);
}

bool engine_evict_some(struct engine *engine, uint32_t *at, int64_t keep_until_ms,
                       uint64_t ready_max, struct engine_now now, size_t steps)
{
    while (steps--) {
        if (*at >= engine->entries.top) {
            *at = 0;
            return true;
        }
        uint32_t id = ++*at;
        const struct entry *entry = entry_at(engine, id);
        if (id + EVICT_AHEAD <= engine->entries.top)
            prefetch_hung(engine, id + EVICT_AHEAD);
        if (entry->state && may_go(engine, entry, keep_until_ms, ready_max, now))
            evict(engine, id);
    }
    return false;
}
