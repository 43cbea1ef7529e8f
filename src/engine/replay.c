/* Back after a restart, record by record; and carrying what still counts out of an old log file.
 * Both turn records into entries. */
#include "engine/private.h"

#include <assert.h>
#include <stdlib.h>

static void see_sequence(struct engine *engine, uint64_t sequence)
{
    if (sequence > engine->sequence)
        engine->sequence = sequence;
}

static struct topic *topic_of(struct engine *engine, struct slice name)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        engine_topic_make(engine, name, &topic);
    return topic;
}

static uint32_t find_or_make(struct engine *engine, const struct topic *topic, struct hash128 key)
{
    uint32_t id = engine_index_find(engine, key);
    if (id) {
        entry_unhang(engine, id);
        return id;
    }
    return entry_new(engine, topic, key);
}

static void set_times(struct entry *entry, int64_t due_ms, bool is_wall, uint16_t priority,
                      uint32_t attempt)
{
    entry->due_ms = (uint64_t)due_ms & 0xffffffffffffu;
    entry->flags = is_wall ? ENTRY_DUE_IS_WALL : 0;
    entry->priority = priority;
    entry->attempt = attempt;
}

/* Time stands still while replaying: what is due goes straight to the ready heaps, nothing is told
 * or recorded. */
static bool hang_replayed(struct engine *engine, uint32_t id, enum job_state state)
{
    entry_hang(engine, id, state, engine->recovery);
    return true;
}

static bool replay_job(struct engine *engine, const struct record *record,
                       struct record_place place)
{
    const struct job *job = &record->job;
    if (!job_topic_is_valid(job->topic) || !job_id_is_valid(job->id) ||
        job->state == JOB_FINISHED || job->state == JOB_READY)
        return false;
    struct topic *topic = topic_of(engine, job->topic);
    uint32_t id =
        topic ? find_or_make(engine, topic, hash_pair(job->topic, job->id, engine->hash_seed)) : 0;
    if (!id)
        return false;
    struct entry *entry = entry_at(engine, id);
    if (entry->place.bytes)
        engine->sink.release(engine->sink.ctx, entry->place);
    entry->place = place;
    entry->sequence = job->sequence & 0xffffffffffffffu;
    set_times(entry, job->due_ms, job->due_is_wall, job->priority, job->attempt);
    bool plain = !job->attempt && !job->delivery && !job->policy.lease_ms && !job->policy.ttl_ms &&
                 !job->policy.backoff.kind && !job->policy.max_attempts &&
                 job->first_due_ms == job->due_ms && !job->error.len && !job->history.len;
    if (!plain || entry->extra || job->state != JOB_DELAYED) {
        struct extra *extra = entry_need_extra(engine, entry);
        if (!extra)
            return false;
        extra->policy = job->policy;
        extra->first_due_ms = job->first_due_ms;
        extra->delivery = job->delivery;
        extra->lease_until_ms = job->lease_until_ms;
        extra->taken_ms = job->taken_ms;
        extra->lease_ms = 0; /* not recorded */
        entry_set_texts(engine, entry, job->history, job->error);
    }
    if (record->origin == RECORD_PUSHED)
        topic->totals.pushed++;
    if (record->origin == RECORD_PUSHED_REPLACING)
        topic->totals.replaced++;
    see_sequence(engine, job->sequence);
    see_sequence(engine, job->delivery);
    return hang_replayed(engine, id, job->state);
}

/* What an attempt left behind. One that has ended already ends no more: a record may come twice. */
static void replay_texts(struct engine *engine, struct entry *entry, bool ends,
                         const struct record_state *state)
{
    struct topic_totals *totals = &entry_topic(engine, entry)->totals;
    if (!ends) {
        entry_set_texts(engine, entry, entry_history(entry_extra(engine, entry)), state->error);
        return;
    }
    totals->lease_ended += state->ended.outcome == JOB_OUTCOME_LEASE_ENDED;
    totals->nacked += state->ended.outcome != JOB_OUTCOME_LEASE_ENDED;
    entry_add_history(engine, entry, &state->ended, state->error);
}

/* A state or an end of a job whose record went with an older file has nothing to change. */
static bool replay_state(struct engine *engine, const struct record_state *state)
{
    see_sequence(engine, state->delivery);
    uint32_t id = engine_index_find(engine, state->key);
    if (!id)
        return true;
    struct entry *entry = entry_at(engine, id);
    if (entry->state == JOB_FINISHED || state->state == JOB_FINISHED || state->state == JOB_READY)
        return false;
    bool was_leased = entry->state == JOB_LEASED;
    entry_unhang(engine, id);
    set_times(entry, state->due_ms, state->due_is_wall, state->priority, state->attempt);
    bool plain = !state->attempt && !state->delivery && state->first_due_ms == state->due_ms &&
                 !state->error.len && state->state == JOB_DELAYED;
    struct extra *extra = entry_extra(engine, entry);
    if (!plain && !extra && !(extra = entry_need_extra(engine, entry)))
        return false;
    if (extra) {
        struct topic_totals *totals = &entry_topic(engine, entry)->totals;
        totals->delivered += state->delivery > extra->delivery;
        totals->died += state->state == JOB_DEAD;
        replay_texts(engine, entry,
                     state->ended.outcome && was_leased && extra->delivery == state->delivery,
                     state);
        extra->first_due_ms = state->first_due_ms;
        extra->delivery = state->delivery;
        extra->lease_until_ms = state->lease_until_ms;
        extra->taken_ms = state->taken_ms;
        extra->lease_ms = 0;
    }
    return hang_replayed(engine, id, state->state);
}

static bool replay_done(struct engine *engine, const struct record_done *done,
                        struct record_place place)
{
    see_sequence(engine, done->sequence);
    struct topic *topic = done->topic.len ? topic_of(engine, done->topic) : NULL;
    if (!topic)
        return false;
    if (!done->carried)
        engine_topic_count_done(topic, done->reason);
    uint32_t id = engine_index_find(engine, done->key);
    if (!done->remember_until_ms) {
        if (id) {
            entry_unhang(engine, id);
            entry_forget(engine, id);
        }
        return true;
    }
    id = find_or_make(engine, topic, done->key);
    if (!id)
        return false;
    struct entry *entry = entry_at(engine, id);
    if (entry->place.bytes)
        engine->sink.release(engine->sink.ctx, entry->place);
    entry_drop_extra(engine, entry);
    engine->sink.retain(engine->sink.ctx, place);
    entry->place = place;
    entry->sequence = done->sequence & 0xffffffffffffffu;
    set_times(entry, done->remember_until_ms, false, 0, 0);
    return hang_replayed(engine, id, JOB_FINISHED);
}

/* A topic goes when it has no jobs left. Ids it remembered may be left here: their time ran out
 * without a record. */
static bool replay_removal(struct engine *engine, struct slice name)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return true;
    for (uint32_t id = 1; topic->remembered && id <= engine->entries.top; id++) {
        const struct entry *entry = entry_at(engine, id);
        if (entry->state == JOB_FINISHED && entry->topic == topic->id) {
            entry_unhang(engine, id);
            entry_forget(engine, id);
        }
    }
    if (!engine_topic_is_empty(topic))
        return false;
    engine_topic_free(engine, topic);
    return true;
}

static bool replay_topic(struct engine *engine, const struct record_topic *record)
{
    see_sequence(engine, record->sequence);
    if (!record->exists)
        return replay_removal(engine, record->topic);
    struct topic *topic = topic_of(engine, record->topic);
    if (!topic || !engine_topic_set(topic, &record->settings))
        return false;
    topic->totals = record->totals;
    topic->paused = record->paused;
    return true;
}

bool engine_replay(struct engine *engine, const struct record *record, struct record_place place)
{
    assert(engine->recovering);
    switch (record->kind) {
    case RECORD_JOB:
        return replay_job(engine, record, place);
    case RECORD_STATE:
        return replay_state(engine, &record->state);
    case RECORD_DONE:
        return replay_done(engine, &record->done, place);
    case RECORD_TOPIC:
        return replay_topic(engine, &record->topic);
    }
    return false;
}

void engine_start(struct engine *engine, uint64_t epoch)
{
    enum { GAP = 1 << 24 }; /* numbers given to deliveries whose records a crash took */
    uint64_t first = epoch << 32;
    engine->sequence = engine->sequence + GAP > first ? engine->sequence + GAP : first;
    engine->recovering = false;
}

/* ---- carrying forward ---- */

size_t engine_room_carry(const struct record *record)
{
    return record_bytes_max(record) + ENGINE_STATE_BYTES_MAX + JOB_HISTORY_BYTES_MAX;
}

static bool is_at(const struct entry *entry, struct record_place place)
{
    return entry->place.file == place.file && entry->place.at == place.at;
}

static void carry_job(struct engine *engine, uint32_t id, const struct record *old,
                      struct record_place place)
{
    struct entry *entry = entry_at(engine, id);
    const struct extra *extra = entry_extra(engine, entry);
    struct record record = *old;
    struct job *job = &record.job;
    record.origin = RECORD_CARRIED;
    job->state = entry->state == JOB_READY ? JOB_DELAYED : (enum job_state)entry->state;
    job->due_is_wall = entry->flags & ENTRY_DUE_IS_WALL;
    job->due_ms = (int64_t)entry->due_ms;
    job->first_due_ms = entry_first_due_ms(engine, entry);
    job->priority = (uint16_t)entry->priority;
    job->attempt = entry->attempt;
    job->delivery = extra ? extra->delivery : 0;
    job->lease_until_ms = job->state == JOB_LEASED ? extra->lease_until_ms : 0;
    job->taken_ms = job->state == JOB_LEASED ? extra->taken_ms : 0;
    job->history = entry_history(extra);
    job->error = entry_error(extra);
    entry->place = engine->sink.append(engine->sink.ctx, &record);
    if (job->state == JOB_DEAD)
        entry_topic(engine, entry)->counts.dead_bytes += entry->place.bytes - (uint64_t)place.bytes;
    engine->sink.release(engine->sink.ctx, place);
}

void engine_carry(struct engine *engine, const struct record *old, struct record_place place)
{
    if (old->kind == RECORD_JOB) {
        uint32_t id =
            engine_index_find(engine, hash_pair(old->job.topic, old->job.id, engine->hash_seed));
        if (id && is_at(entry_at(engine, id), place))
            carry_job(engine, id, old, place);
    } else if (old->kind == RECORD_DONE && old->done.remember_until_ms) {
        uint32_t id = engine_index_find(engine, old->done.key);
        if (!id || !is_at(entry_at(engine, id), place))
            return;
        struct record record = *old;
        record.done.carried = true;
        struct record_place fresh = engine->sink.append(engine->sink.ctx, &record);
        engine->sink.release(engine->sink.ctx, place);
        engine->sink.retain(engine->sink.ctx, fresh);
        entry_at(engine, id)->place = fresh;
    }
}
