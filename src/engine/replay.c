/* Back after a restart, record by record. */
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

/* An entry that hangs nowhere and whose record lies nowhere. */
static uint32_t find_or_make(struct engine *engine, struct topic *topic, struct hash128 key)
{
    uint32_t id = engine_index_find(engine, key);
    if (!id)
        return entry_new(engine, topic, key);
    if (entry_at(engine, id)->is_stub) {
        stub_end(engine, id, topic);
        return id;
    }
    entry_unhang(engine, id);
    entry_release(engine, entry_at(engine, id));
    entry_at(engine, id)->state_file = 0;
    return id;
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
    if (!topic)
        return false;
    struct hash128 key = hash_pair(job->topic, job->id, engine->hash_seed);
    uint32_t id = find_or_make(engine, topic, key);
    if (!id || !entry_from_job(engine, entry_at(engine, id), job) ||
        !stub_release_from(engine, topic, record, key))
        return false;
    entry_at(engine, id)->place = place;
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

static bool replay_state(struct engine *engine, const struct record *record,
                         struct record_place place)
{
    const struct record_state *state = &record->state;
    uint32_t id = engine_index_find(engine, state->key);
    if (!id || entry_at(engine, id)->is_stub) {
        bool is_fine = stub_replay(engine, id, record, place);
        see_sequence(engine, state->delivery);
        return is_fine;
    }
    see_sequence(engine, state->delivery);
    struct entry *entry = entry_at(engine, id);
    if (entry->state == JOB_FINISHED || state->state == JOB_FINISHED || state->state == JOB_READY)
        return false;
    bool was_leased = entry->state == JOB_LEASED;
    entry_unhang(engine, id);
    entry_set_times(entry, state->due_ms, state->due_is_wall, state->priority, state->attempt);
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
    entry_set_state_file(engine, entry, place.file, state->ended.outcome);
    return hang_replayed(engine, id, state->state);
}

/* Without an entry: it lies in a run, or its record went with an older file. */
static void replay_end(struct engine *engine, struct topic *topic, struct hash128 key)
{
    uint32_t id = engine_index_find(engine, key);
    if (!id)
        return;
    if (entry_at(engine, id)->is_stub) {
        stub_end(engine, id, topic);
        entry_discard(engine, id);
        return;
    }
    entry_unhang(engine, id);
    entry_forget(engine, id);
}

static bool replay_done(struct engine *engine, const struct record *record,
                        struct record_place place)
{
    const struct record_done *done = &record->done;
    see_sequence(engine, done->sequence);
    struct topic *topic = done->topic.len ? topic_of(engine, done->topic) : NULL;
    if (!topic || !stub_release_from(engine, topic, record, done->key))
        return false;
    if (!done->carried)
        engine_topic_count_done(topic, done->reason);
    if (!done->remember_until_ms) {
        replay_end(engine, topic, done->key);
        return true;
    }
    uint32_t id = find_or_make(engine, topic, done->key);
    if (!id)
        return false;
    struct entry *entry = entry_at(engine, id);
    entry_drop_extra(engine, entry);
    entry->place = place;
    entry->sequence = done->sequence & 0xffffffffffffffu;
    entry_set_times(entry, done->remember_until_ms, false, 0, 0);
    return hang_replayed(engine, id, JOB_FINISHED);
}

/* It had no jobs then. Slots it may have still: of ends whose slot was not known, and of remembered
 * ids whose time ran out without a record. These go later, and the topic with the last of them. */
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
    const struct queue_counts *counts = &topic->counts;
    if (counts->delayed + counts->retrying + counts->ready + counts->leased + counts->dead)
        return false;
    engine_topic_set(topic, &(struct topic_settings){0});
    topic->totals = (struct topic_totals){0};
    topic->paused = topic->deleting = false;
    topic->exists = false;
    engine_topic_let_go(engine, topic);
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
    topic->totals_at = engine->replayed;
    topic->paused = record->paused;
    topic->deleting = record->deleting;
    return true;
}

static uint64_t key_low_of(const struct engine *engine, const struct record *record)
{
    switch (record->kind) {
    case RECORD_JOB:
        return hash_pair(record->job.topic, record->job.id, engine->hash_seed).low;
    case RECORD_STATE:
        return record->state.key.low;
    case RECORD_DONE:
        return record->done.key.low;
    case RECORD_TOPIC:
        break;
    }
    return 0;
}

void engine_replay_soon(const struct engine *engine, const struct record *records, size_t count)
{
    enum { LOT = 16 };
    uint64_t keys[LOT];
    for (size_t first = 0; first < count; first += LOT) {
        size_t some = count - first < LOT ? count - first : LOT;
        for (size_t i = 0; i < some; i++) {
            keys[i] = key_low_of(engine, &records[first + i]);
            engine_index_prefetch(engine, keys[i]);
        }
        for (size_t i = 0; i < some; i++)
            engine_index_prefetch_entry(engine, keys[i]);
    }
}

bool engine_replay(struct engine *engine, const struct record *record, struct record_place place)
{
    assert(engine->recovering);
    engine->replayed++;
    switch (record->kind) {
    case RECORD_JOB:
        return replay_job(engine, record, place);
    case RECORD_STATE:
        return replay_state(engine, record, place);
    case RECORD_DONE:
        return replay_done(engine, record, place);
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
    assert(!engine->stubs);
    stub_fini(engine);
    engine->recovering = false;
}
