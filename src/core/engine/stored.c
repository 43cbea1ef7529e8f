/* Jobs in runs: their number for each topic, loading and eviction; and the interface between a checkpoint and the
 * engine. */
#include "engine/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

bool engine_stored_begin(struct engine *engine, struct slice name, const uint64_t stored[SECTIONS],
                         uint64_t dead_bytes, uint64_t kept_bytes)
{
    struct topic *topic = engine_topic_find(engine, name);
    assert(engine->recovering);
    if (!topic && engine_topic_make(engine, name, &topic) != QUEUE_OK)
        return false;
    memcpy(topic->stored, stored, sizeof topic->stored);
    topic->stored_dead_bytes = dead_bytes;
    topic->stored_kept_bytes = kept_bytes;
    return true;
}

bool engine_stored_next(const struct engine *engine, uint32_t *at, struct slice *name,
                        uint64_t stored[SECTIONS], uint64_t *dead_bytes, uint64_t *kept_bytes)
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
        *kept_bytes = topic->stored_kept_bytes;
        return true;
    }
    return false;
}

/* ---- look-up ---- */

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

bool engine_waiting_next(struct engine *engine, struct slice name, uint32_t *at, uint32_t *mark,
                         uint64_t *waiting)
{
    const struct topic *topic = engine_topic_lookup(engine, name);
    struct slice group;
    if (!topic || !flow_waiting_next(engine, topic, at, &group, waiting))
        return false;
    *mark = flow_group_mark(topic->name, group, engine->hash_seed);
    return true;
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

/* Releases the slot of a remembered id that expired and was pushed again. No record marks the expiry, so the slot
 * is still there after a restart. */
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
    assert(topic); /* because it counts the slot */
    id = entry_new(engine, topic, key);
    if (!id)
        return ENGINE_NO_MEMORY;
    struct entry *entry = entry_at(engine, id);
    if (is_job && !entry_from_job(engine, entry, job)) {
        entry_discard(engine, id);
        return ENGINE_NO_MEMORY;
    }
    if (!is_job)
        entry->sequence = record->done.sequence & 0xffffffffffffffu;
    int64_t when_ms;
    entry_settle(engine, entry, place, job_section_of_record(record, now.skew_ms, &when_ms));
    if (is_job)
        entry_hang(engine, id, job->state, now);
    else
        entry_hang_done(engine, id, &record->done, now);
    if (entry->state == JOB_READY && topic->cold_ready)
        topic->cold_ready--;
    if (entry->state == JOB_READY) /* it fell due while on the disk */
        entry_notify(engine, id, JOB_EVENT_DUE, job->id, (struct slice){0}, now);
    return ENGINE_LOADED;
}

/* ---- eviction ---- */

/* Returns whether the entry is not needed soon, and its run holds all of it. */
static bool entry_may_go(const struct engine *engine, const struct entry *entry,
                         int64_t keep_until_ms, uint64_t ready_max, struct engine_now now)
{
    const struct topic *topic = entry_topic(engine, entry);
    if (!record_place_is_run(entry->place) || entry->state_file || entry->is_collected)
        return false;
    if (engine_topic_keeps_waiting(topic) &&
        (entry->state == JOB_DELAYED || entry->state == JOB_READY))
        return false; /* engine_keeps_waiting */
    if (entry->extra && __builtin_expect(entry_extra(engine, entry)->marks & EXTRA_OWNS, 0) &&
        (entry->state == JOB_DELAYED || entry->state == JOB_READY))
        return false; /* the end of its wait needs it */
    switch ((enum job_state)entry->state) {
    case JOB_DELAYED:
        return entry_due_inner_ms(entry, now.skew_ms) > keep_until_ms;
    case JOB_READY:
        return flow_has_over(engine, topic, entry_group(engine, entry), ready_max);
    case JOB_FINISHED:
        return (int64_t)entry->due_ms > keep_until_ms;
    case JOB_DEAD:
        return true;
    case JOB_LEASED:
        break;
    }
    return false;
}

/* Evicts an entry: the job becomes cold. */
static void entry_evict(struct engine *engine, uint32_t id)
{
    struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    topic->cold_ready += entry->state == JOB_READY;
    entry_unhang(engine, id);
    topic->loaded[entry->section]--;
    entry_hold_slot(engine, entry->place, false);
    uint64_t *bytes = topic_loaded_bytes(topic, (enum job_section)entry->section);
    if (bytes)
        *bytes -= entry->place.bytes;
    entry_discard(engine, id);
}

enum { EVICT_AHEAD = 8 };

/* Prefetches the memory of an eviction: the bucket, and the neighbours in the slot of the wheel. */
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
        if (entry->state && entry_may_go(engine, entry, keep_until_ms, ready_max, now))
            entry_evict(engine, id);
    }
    return false;
}

/* ---- checkpoints ---- */

struct engine_changed {
    enum job_state state;
    bool due_is_wall;
    uint16_t priority;
    uint32_t attempt;
    int64_t due_ms, first_due_ms, lease_until_ms, taken_ms;
    uint64_t delivery;
    uint16_t history_bytes, error_bytes, progress_bytes;
    uint8_t consumer_bytes;
    bool cancel_requested;
    uint8_t next; /* enum extra_next */
    char text[];  /* the history, then the error, then the consumer, then the progress */
};

void engine_changed_free(struct engine_changed *changed)
{
    free(changed);
}

void engine_changed_apply(const struct engine_changed *changed, struct record *record)
{
    struct job *job = &record->job;
    assert(record->kind == RECORD_JOB);
    if (changed->next == NEXT_STARTED)
        record_next_start(job);
    else if (changed->next != NEXT_WAITS)
        job->next = (struct slice){0};
    job->state = changed->state;
    job->due_is_wall = changed->due_is_wall;
    job->priority = changed->priority;
    job->attempt = changed->attempt;
    job->due_ms = changed->due_ms;
    job->first_due_ms = changed->first_due_ms;
    job->lease_until_ms = changed->lease_until_ms;
    job->taken_ms = changed->taken_ms;
    job->delivery = changed->delivery;
    job->history = slice_make(changed->text, changed->history_bytes);
    job->error = slice_make(changed->text + changed->history_bytes, changed->error_bytes);
    job->consumer = slice_make(changed->text + changed->history_bytes + changed->error_bytes,
                               changed->consumer_bytes);
    job->progress = slice_make(changed->text + changed->history_bytes + changed->error_bytes +
                                   changed->consumer_bytes,
                               changed->progress_bytes);
    job->cancel_requested = changed->cancel_requested;
}

/* Returns the state to store: ready is not stored, but is delayed and due. */
static enum job_state entry_stored_state(const struct entry *entry)
{
    return entry->state == JOB_READY ? JOB_DELAYED : (enum job_state)entry->state;
}

/* Returns the present state of the job, as a record must contain it. NULL: out of memory. */
static struct engine_changed *changed_new(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    struct slice history = entry_history(extra), error = entry_error(extra),
                 consumer = entry_consumer(engine, entry), progress = entry_progress(engine, entry);
    struct engine_changed *changed =
        malloc(sizeof *changed + history.len + error.len + consumer.len + progress.len);
    if (!changed)
        return NULL;
    bool is_leased = entry->state == JOB_LEASED;
    *changed = (struct engine_changed){.state = entry_stored_state(entry),
                                       .due_is_wall = entry->flags & ENTRY_DUE_IS_WALL,
                                       .priority = (uint16_t)entry->priority,
                                       .attempt = extra ? extra->attempt : 0,
                                       .due_ms = (int64_t)entry->due_ms,
                                       .first_due_ms = entry_first_due_ms(engine, entry),
                                       .lease_until_ms = is_leased ? extra->lease_until_ms : 0,
                                       .taken_ms = is_leased ? extra->taken_ms : 0,
                                       .delivery = extra ? extra->delivery : 0,
                                       .history_bytes = (uint16_t)history.len,
                                       .error_bytes = (uint16_t)error.len,
                                       .consumer_bytes = (uint8_t)consumer.len,
                                       .progress_bytes = (uint16_t)progress.len,
                                       .cancel_requested = is_leased && extra->cancel_requested,
                                       .next = extra ? extra->next : NEXT_NONE};
    if (history.len)
        memcpy(changed->text, history.at, history.len);
    if (error.len)
        memcpy(changed->text + history.len, error.at, error.len);
    if (consumer.len)
        memcpy(changed->text + history.len + error.len, consumer.at, consumer.len);
    if (progress.len)
        memcpy(changed->text + history.len + error.len + consumer.len, progress.at, progress.len);
    return changed;
}

/* Returns whether the checkpoint must write the job, because the file or the run that holds its state will be
 * removed. */
static bool entry_is_wanted(const struct engine *engine, const struct engine_collect *collect,
                            const struct entry *entry)
{
    if (!record_place_is_run(entry->place))
        return entry->place.file < collect->before_file;
    const struct extra *extra = entry_extra(engine, entry);
    if (entry->state_file && entry->state_file < collect->before_file)
        return true;
    if (extra && extra->ended_file && extra->ended_file < collect->before_file)
        return true;
    return collect->is_victim && collect->is_victim(collect->ctx, record_place_run(entry->place));
}

/* Returns the time that orders the job in its section. */
static int64_t item_when_ms(const struct entry *entry, enum job_section section,
                            struct engine_now now)
{
    int64_t when_ms = (int64_t)entry->due_ms;
    if (section == SECTION_LEASED)
        return 0;
    if (section == SECTION_DEAD)
        when_ms = entry_due_wall_ms(entry, now.skew_ms);
    return when_ms < 0 ? 0 : when_ms;
}

/* Passes the job to the checkpoint. False: out of memory. */
static bool collect_item(const struct engine *engine, const struct engine_collect *collect,
                         uint32_t id, struct engine_now now)
{
    const struct entry *entry = entry_at(engine, id);
    enum job_section section = entry_section(engine, entry);
    struct engine_item item = {.section = section,
                               .when_ms = item_when_ms(entry, section, now),
                               .sequence = entry->sequence,
                               .place = entry->place,
                               .id = id};
    if (entry->state_file && !(item.changed = changed_new(engine, entry)))
        return false;
    if (collect->each(collect->ctx, &item))
        return true;
    engine_changed_free(item.changed);
    return false;
}

int engine_collect(struct engine *engine, struct engine_collect *collect, struct engine_now now,
                   size_t steps)
{
    while (steps--) {
        if (collect->at >= engine->entries.top)
            return 0;
        uint32_t id = ++collect->at;
        struct entry *entry = entry_at(engine, id);
        if (!entry->state)
            continue;
        entry->is_collected = entry_is_wanted(engine, collect, entry);
        if (entry->is_collected && !collect_item(engine, collect, id, now))
            return -ENOMEM;
    }
    return collect->at < engine->entries.top;
}

/* ---- installing ---- */

/* Moves the record of a linked entry to another place. */
static void entry_move_to(struct engine *engine, struct entry *entry, struct record_place place,
                          enum job_section section)
{
    struct topic *topic = entry_topic(engine, entry);
    bool waits = entry_waits(engine, entry);
    uint64_t *bytes = topic_stored_bytes(topic, section);
    if (entry->state == JOB_DEAD)
        topic->counts.dead_bytes += (uint64_t)place.bytes - entry->place.bytes;
    if (entry_is_kept(entry))
        topic->kept_bytes += (uint64_t)place.bytes - entry->place.bytes;
    if (waits && !record_place_is_run(entry->place)) {
        topic->waiting++;
        if (topic->flow)
            flow_waits(engine, topic, entry_group(engine, entry), true);
    }
    topic->stored[section]++;
    if (bytes)
        *bytes += place.bytes;
    entry_release(engine, entry);
    entry_settle(engine, entry, place, section);
}

void engine_install_soon(const struct engine *engine, uint32_t id)
{
    if (!id || id > engine->entries.top)
        return;
    const char *entry = (const char *)entry_at(engine, id);
    __builtin_prefetch(entry, 1);
    __builtin_prefetch(entry + sizeof(struct entry) - 1, 1);
}

bool engine_install(struct engine *engine, uint32_t id, struct record_place old,
                    struct record_place place, enum job_section section, uint32_t before_file)
{
    if (!id || id > engine->entries.top)
        return false;
    struct entry *entry = entry_at(engine, id);
    if (!entry->state || !entry_is_at(entry, old))
        return false;
    entry_move_to(engine, entry, place, section);
    entry->is_collected = false;
    struct extra *extra = entry_extra(engine, entry);
    if (entry->state_file < before_file)
        entry_is_recorded(engine, entry);
    else if (extra && extra->ended_file && extra->ended_file < before_file)
        extra->ended_file = before_file;
    return true;
}

void engine_keep(struct engine *engine, uint32_t id, struct record_place place)
{
    if (!id || id > engine->entries.top)
        return;
    struct entry *entry = entry_at(engine, id);
    if (!entry->state || !entry_is_at(entry, place) || !entry->state_file)
        return;
    entry_record(engine, id);
    if (entry->extra) /* attempts in older records belonged to the history that cannot be read */
        entry_extra(engine, entry)->ended_file = 0;
}

void engine_relocate(struct engine *engine, uint64_t key_low, struct record_place old,
                     struct record_place place)
{
    uint32_t id = engine_index_find_place(engine, key_low, old);
    if (!id)
        return;
    struct entry *entry = entry_at(engine, id);
    assert(place.bytes == old.bytes); /* its record was copied unchanged */
    entry->place = place;
    entry_hold_slot(engine, place, true);
}
