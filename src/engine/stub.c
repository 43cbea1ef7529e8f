/* Jobs of which the log told a new state but not the job itself: that lies in a run, and is put to
 * it after the replay. And ends whose slot the log could not name. */
#include "engine/private.h"

#include <assert.h>
#include <stdlib.h>

/* ---- totals: whose they are is known only later ---- */

static bool add_event(struct engine *engine, struct entry *entry, struct stub_event event)
{
    if (!(event.delivered || event.nacked || event.lease_ended || event.died))
        return true;
    if (engine->event_count + 1 >= engine->event_cap) {
        uint32_t cap = engine->event_cap ? engine->event_cap * 2 : 1024;
        struct stub_event *events = realloc(engine->events, cap * sizeof *events);
        if (!events)
            return false;
        engine->events = events;
        engine->event_cap = cap;
    }
    event.at = engine->replayed;
    event.next = entry->ready_at;
    engine->events[++engine->event_count] = event;
    entry->ready_at = engine->event_count;
    return true;
}

/* What came before the topic's own record is in its totals already. */
static void count_events(struct engine *engine, uint32_t at, struct topic *topic)
{
    for (; at; at = engine->events[at].next) {
        const struct stub_event *event = &engine->events[at];
        if (event->at < topic->totals_at)
            break;
        topic->totals.delivered += event->delivered;
        topic->totals.nacked += event->nacked;
        topic->totals.lease_ended += event->lease_ended;
        topic->totals.died += event->died;
    }
}

/* ---- replay ---- */

static uint32_t new_stub(struct engine *engine, struct hash128 key)
{
    uint32_t id = entry_new(engine, NULL, key);
    if (!id)
        return 0;
    struct entry *entry = entry_at(engine, id);
    if (!entry_need_extra(engine, entry)) {
        entry_discard(engine, id);
        return 0;
    }
    entry->is_stub = true;
    engine->stubs++;
    return id;
}

static void set_state(struct engine *engine, struct entry *entry, const struct record_state *state,
                      bool ends)
{
    struct extra *extra = entry_extra(engine, entry);
    entry_set_times(entry, state->due_ms, state->due_is_wall, state->priority, state->attempt);
    entry->state = (uint64_t)state->state & 0xf;
    extra->first_due_ms = state->first_due_ms;
    extra->delivery = state->delivery;
    extra->lease_until_ms = state->lease_until_ms;
    extra->taken_ms = state->taken_ms;
    if (ends)
        entry_add_history(engine, entry, &state->ended, state->error);
    else
        entry_set_texts(engine, entry, entry_history(extra), state->error);
}

/* Numbers of deliveries rise: one above all before is a new one. (Before the first record that
 * tells where they stand that is a guess; what is counted there the topic's record corrects.) */
bool stub_replay(struct engine *engine, uint32_t id, const struct record *record,
                 struct record_place place)
{
    const struct record_state *state = &record->state;
    if (state->state == JOB_FINISHED || state->state == JOB_READY)
        return false;
    bool is_first = !id;
    if (!id && !(id = new_stub(engine, state->key)))
        return false;
    struct entry *entry = entry_at(engine, id);
    bool ends = state->ended.outcome &&
                (is_first || (entry->state == JOB_LEASED &&
                              entry_extra(engine, entry)->delivery == state->delivery));
    struct stub_event event = {.delivered = state->delivery > engine->sequence,
                               .died = state->state == JOB_DEAD,
                               .lease_ended =
                                   ends && state->ended.outcome == JOB_OUTCOME_LEASE_ENDED,
                               .nacked = ends && state->ended.outcome != JOB_OUTCOME_LEASE_ENDED};
    set_state(engine, entry, state, ends);
    entry_set_state_file(engine, entry, place.file, ends);
    if (record->from.bytes)
        entry->place = record->from;
    return add_event(engine, entry, event);
}

void stub_end(struct engine *engine, uint32_t id, struct topic *topic)
{
    struct entry *entry = entry_at(engine, id);
    assert(entry->is_stub);
    count_events(engine, entry->ready_at, topic);
    entry_drop_extra(engine, entry);
    entry->place = (struct record_place){0};
    entry->is_stub = false;
    entry->state_file = 0;
    entry->ready_at = 0;
    entry->topic = topic->id;
    engine->stubs--;
}

bool stub_release_from(struct engine *engine, struct topic *topic, const struct record *record,
                       struct hash128 key)
{
    if (!record->from.bytes || engine_slot_release(engine, topic, record->from) != SLOT_UNKNOWN)
        return true;
    if (engine->unresolved_count == engine->unresolved_cap) {
        uint32_t cap = engine->unresolved_cap ? engine->unresolved_cap * 2 : 1024;
        struct hash128 *keys = realloc(engine->unresolved, cap * sizeof *keys);
        if (!keys)
            return false;
        engine->unresolved = keys;
        engine->unresolved_cap = cap;
    }
    engine->unresolved[engine->unresolved_count++] = key;
    return true;
}

void stub_fini(struct engine *engine)
{
    free(engine->events);
    free(engine->unresolved);
    engine->events = NULL;
    engine->unresolved = NULL;
    engine->event_count = engine->event_cap = 0;
    engine->unresolved_count = engine->unresolved_cap = 0;
}

/* ---- after it ---- */

bool engine_stub_next(const struct engine *engine, uint32_t *at, struct hash128 *key,
                      struct record_place *place)
{
    while (engine->stubs && *at < engine->entries.top) {
        const struct entry *entry = entry_at(engine, ++*at);
        if (!entry->is_stub)
            continue;
        *key = entry->key;
        *place = entry->place;
        return true;
    }
    return false;
}

static bool is_same_attempt(const struct job_attempt *a, const struct job_attempt *b)
{
    return a->attempt == b->attempt && a->started_ms == b->started_ms &&
           a->duration_ms == b->duration_ms && a->outcome == b->outcome;
}

static bool has_attempt(struct slice history, const struct job_attempt *attempt)
{
    struct job_attempt other;
    for (size_t at = 0; job_history_next(history, &at, &other);)
        if (is_same_attempt(&other, attempt))
            return true;
    return false;
}

/* The record may have been written when some of the log's attempts had ended: these it knows. */
static size_t join_histories(struct slice known, struct slice later, char *into)
{
    struct job_attempt attempt;
    char scratch[JOB_HISTORY_BYTES_MAX];
    size_t from = 0, bytes = known.len;
    for (size_t at = 0; job_history_next(later, &at, &attempt);)
        if (has_attempt(known, &attempt))
            from = at;
    if (bytes)
        memcpy(into, known.at, bytes);
    while (job_history_next(later, &from, &attempt)) {
        bytes = job_history_add(slice_make(into, bytes), &attempt, scratch);
        memcpy(into, scratch, bytes);
    }
    return bytes;
}

static void complete(struct engine *engine, struct entry *entry, const struct job *job)
{
    struct extra *extra = entry_extra(engine, entry);
    char history[JOB_HISTORY_BYTES_MAX];
    size_t bytes = join_histories(job->history, entry_history(extra), history);
    char error[JOB_ERROR_BYTES_MAX];
    size_t error_bytes = extra->error_bytes;
    if (error_bytes)
        memcpy(error, extra->text + extra->history_bytes, error_bytes);
    entry_set_texts(engine, entry, slice_make(history, bytes), slice_make(error, error_bytes));
    extra->policy = job->policy;
    entry->sequence = job->sequence & 0xffffffffffffffu;
}

bool engine_stub_fill(struct engine *engine, uint32_t id, const struct record *record,
                      struct record_place place)
{
    struct entry *entry = entry_at(engine, id);
    assert(engine->recovering && entry->is_stub && record_place_is_run(place));
    if (record->kind != RECORD_JOB)
        return false;
    struct hash128 key = hash_pair(record->job.topic, record->job.id, engine->hash_seed);
    struct topic *topic = engine_topic_lookup(engine, record->job.topic);
    if (!topic || key.low != entry->key.low || key.high != entry->key.high)
        return false;
    int64_t when_ms;
    count_events(engine, entry->ready_at, topic);
    complete(engine, entry, &record->job);
    entry->place = (struct record_place){0};
    entry->is_stub = false;
    entry->ready_at = 0;
    entry->topic = topic->id;
    engine->stubs--;
    entry_settle(engine, entry, place, job_section_of_record(record, 0, &when_ms));
    if (record->job.sequence > engine->sequence)
        engine->sequence = record->job.sequence;
    entry_hang(engine, id, (enum job_state)entry->state, engine->recovery);
    return true;
}

bool engine_unresolved_next(struct engine *engine, uint32_t *at, struct hash128 *key)
{
    if (*at >= engine->unresolved_count)
        return false;
    *key = engine->unresolved[(*at)++];
    return true;
}

void engine_release_stored(struct engine *engine, struct slice name, struct record_place place)
{
    struct topic *topic = engine_topic_lookup(engine, name);
    assert(topic && record_place_is_run(place));
    engine_slot_release(engine, topic, place);
    engine_topic_let_go(engine, topic);
}
