/* Recovery after a restart, record by record. Also joins jobs of which the log holds only a new state with the job
 * itself, which is in a run. */
#include "engine/state.h"

#include <assert.h>
#include <stdlib.h>

/*
 * ---- stubs ----
 *
 * A stub is joined with its job after the replay. Finished jobs whose slot the log could not name are kept likewise.
 */

/* ---- totals of stubs: the topic is known only later ---- */

/* Stores an addition to the totals of the topic until the topic is known. False: out of memory. */
static bool stub_add_event(struct engine *engine, struct entry *entry, struct stub_event event)
{
    if (!(event.delivered || event.nacked || event.lease_ended || event.died || event.next_after))
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

/* Adds the stored events to the totals. Events before the record of the topic are included in its totals already. */
static void stub_count_events(struct engine *engine, uint32_t at, struct topic *topic)
{
    for (; at; at = engine->events[at].next) {
        const struct stub_event *event = &engine->events[at];
        if (event->at < topic->totals_at)
            break;
        topic->totals.delivered += event->delivered;
        topic->totals.nacked += event->nacked;
        topic->totals.lease_ended += event->lease_ended;
        topic->totals.died += event->died;
        record_next_count(&topic->totals, event->next_after);
    }
}

/* ---- replay ---- */

/* Creates a stub. 0: out of memory. */
static uint32_t stub_new(struct engine *engine, struct hash128 key)
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

/* Sets the stub to the state of the record. False: out of memory. */
static bool stub_set_state(struct engine *engine, struct entry *entry,
                           const struct record_state *state, bool ends)
{
    struct extra *extra = entry_extra(engine, entry);
    entry_set_times(entry, state->due_ms, state->due_is_wall, state->priority);
    if (state->next > RECORD_NEXT_STARTED) /* the attempts were those of the job before */
        entry_set_texts(engine, entry, (struct slice){0}, (struct slice){0});
    if (state->next)
        extra->next = state->next == RECORD_NEXT_DROPPED ? NEXT_DROPPED : NEXT_STARTED;
    entry->state = (uint64_t)state->state & 7;
    extra->attempt = state->attempt;
    extra->first_due_ms = state->first_due_ms;
    extra->delivery = state->delivery;
    extra->lease_until_ms = state->lease_until_ms;
    extra->taken_ms = state->taken_ms;
    if (ends)
        entry_add_history(engine, entry, &state->ended, state->error);
    else
        entry_set_texts(engine, entry, entry_history(extra), state->error);
    extra->cancel_requested = state->cancel_requested;
    return entry_set_consumer(engine, entry, state->consumer) &&
           (!state->progress.len || entry_set_progress(engine, entry, state->progress));
}

/* Replays a STATE record of a stub. Delivery numbers rise, so a number above all previous ones is a new delivery.
 * (Before the first record with such a number this is a guess, which the record of the topic corrects.) */
static bool stub_replay(struct engine *engine, uint32_t id, const struct record *record,
                        struct record_place place)
{
    const struct record_state *state = &record->state;
    if (state->state == JOB_FINISHED || state->state == JOB_READY)
        return false;
    bool is_first = !id;
    if (!id && !(id = stub_new(engine, state->key)))
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
    if (is_first || entry->state == JOB_LEASED)
        event.next_after = state->next;
    if (!stub_set_state(engine, entry, state, ends))
        return false;
    entry_set_state_file(engine, entry, place.file, ends);
    if (record->from.bytes)
        entry->place = record->from;
    return stub_add_event(engine, entry, event);
}

static void stub_end(struct engine *engine, uint32_t id, struct topic *topic)
{
    struct entry *entry = entry_at(engine, id);
    assert(entry->is_stub);
    stub_count_events(engine, entry->ready_at, topic);
    entry_drop_extra(engine, entry);
    entry->place = (struct record_place){0};
    entry->is_stub = false;
    entry->state_file = 0;
    entry->ready_at = 0;
    entry->topic = topic->id;
    engine->stubs--;
}

static bool stub_release_from(struct engine *engine, struct topic *topic,
                              const struct record *record, struct hash128 key)
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

/* ---- after the replay ---- */

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

/* Returns whether two histories contain the same attempt. */
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

/* Joins two histories. The record may have been written after some of the attempts in the log had ended; it
 * already contains these. */
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

/* Completes the successor of a stub, and puts it into the job if it was started. False: out of memory. */
static bool stub_complete_next(struct engine *engine, struct extra *extra, struct job *job)
{
    bool has_next = job->next.len != 0;
    if (!has_next)
        extra->next = NEXT_NONE;
    if (extra->next == NEXT_STARTED)
        record_next_start(job);
    return extra->next != NEXT_NONE || !has_next || entry_set_next(engine, extra, job);
}

/* Completes a stub from the record of its job. False: out of memory. */
static bool stub_complete(struct engine *engine, struct topic *topic, struct entry *entry,
                          const struct job *record)
{
    struct extra *extra = entry_extra(engine, entry);
    struct job copy = *record, *job = &copy;
    if (!stub_complete_next(engine, extra, job))
        return false;
    char history[JOB_HISTORY_BYTES_MAX];
    size_t bytes = join_histories(job->history, entry_history(extra), history);
    char text[JOB_ERROR_BYTES_MAX + JOB_CONSUMER_BYTES_MAX]; /* the error, then the consumer */
    struct slice consumer = entry_consumer(engine, entry);
    size_t error_bytes = extra->error_bytes;
    if (error_bytes + consumer.len)
        memcpy(text, extra->text + extra->history_bytes, error_bytes + consumer.len);
    consumer.at = text + error_bytes;
    entry_set_texts(engine, entry, slice_make(history, bytes), slice_make(text, error_bytes));
    if (!own_policy_set(engine, &extra->policy, &job->policy) ||
        !entry_set_group(engine, topic, &extra->policy, job->group))
        return false;
    entry->sequence = job->sequence & 0xffffffffffffffu;
    if (job->has_keep) {
        extra->marks |= EXTRA_KEEPS_OWN;
        topic->has_own_keeps = true;
        engine_topic_mind(engine, topic);
    }
    return batch_entry_set(engine, entry, job) && entry_set_consumer(engine, entry, consumer);
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
    stub_count_events(engine, entry->ready_at, topic);
    if (!stub_complete(engine, topic, entry, &record->job))
        return false;
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

enum engine_known engine_known(const struct engine *engine, struct hash128 key)
{
    const uint32_t id = engine_index_find(engine, key);
    const struct entry *entry = id ? entry_at(engine, id) : NULL;
    if (!entry)
        return ENGINE_KNOWN_NOT;
    if (entry->is_stub)
        return ENGINE_KNOWN_STATE;
    return entry->state == JOB_FINISHED ? ENGINE_KNOWN_FINISHED : ENGINE_KNOWN_JOB;
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

/* ---- records ---- */

/* Ensures that future sequences are higher. */
static void replay_sequence(struct engine *engine, uint64_t sequence)
{
    if (sequence > engine->sequence)
        engine->sequence = sequence;
}

/* Returns the topic, and creates it if necessary. NULL: out of memory. */
static struct topic *replay_topic_of(struct engine *engine, struct slice name)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        engine_topic_make(engine, name, &topic);
    return topic;
}

/* Returns an entry that is not linked and has no place. */
static uint32_t replay_entry_of(struct engine *engine, struct topic *topic, struct hash128 key)
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

/* Links a replayed job. Time does not advance during the replay: due jobs go directly to the ready heaps, and
 * nothing is reported or recorded. */
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
    struct topic *topic = replay_topic_of(engine, job->topic);
    if (!topic)
        return false;
    struct hash128 key = hash_pair(job->topic, job->id, engine->hash_seed);
    uint32_t old = engine->batches ? engine_index_find(engine, key) : 0;
    if (old && !entry_at(engine, old)->is_stub && entry_at(engine, old)->sequence != job->sequence)
        batch_drop(engine, entry_at(engine, old)->sequence);
    uint32_t id = replay_entry_of(engine, topic, key);
    if (!id || !entry_from_job(engine, entry_at(engine, id), job) ||
        !stub_release_from(engine, topic, record, key))
        return false;
    entry_at(engine, id)->place = place;
    if (record->origin == RECORD_PUSHED)
        topic->totals.pushed++;
    if (record->origin == RECORD_PUSHED_REPLACING)
        topic->totals.replaced++;
    replay_sequence(engine, job->sequence);
    replay_sequence(engine, job->delivery);
    return hang_replayed(engine, id, job->state);
}

/* Sets the texts of an attempt. An attempt that already ended is not counted again, since a record may come twice. */
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

/* Replays what became of the successor, and sets the times of the job. A record may come twice, and a job without a
 * successor has been written again since. */
static void replay_next(struct engine *engine, struct entry *entry,
                        const struct record_state *state)
{
    struct extra *extra = entry_extra(engine, entry);
    if (extra && extra->successor && state->next == RECORD_NEXT_DROPPED) {
        entry_drop_next(engine, extra);
        extra->next = NEXT_DROPPED;
    } else if (extra && extra->successor && state->next) {
        batch_drop(engine, entry->sequence);
        entry_take_next(engine, entry);
        record_next_count(&entry_topic(engine, entry)->totals, state->next);
    }
    entry_set_times(entry, state->due_ms, state->due_is_wall, state->priority);
}

static bool replay_state(struct engine *engine, const struct record *record,
                         struct record_place place)
{
    const struct record_state *state = &record->state;
    uint32_t id = engine_index_find(engine, state->key);
    if (!id || entry_at(engine, id)->is_stub) {
        bool is_fine = stub_replay(engine, id, record, place);
        replay_sequence(engine, state->delivery);
        return is_fine;
    }
    replay_sequence(engine, state->delivery);
    struct entry *entry = entry_at(engine, id);
    if (entry->state == JOB_FINISHED || state->state == JOB_FINISHED || state->state == JOB_READY)
        return false;
    bool was_leased = entry->state == JOB_LEASED;
    entry_unhang(engine, id);
    replay_next(engine, entry, state);
    bool plain = !state->attempt && !state->delivery && state->first_due_ms == state->due_ms &&
                 !state->error.len && state->state == JOB_DELAYED;
    struct extra *extra = entry_extra(engine, entry);
    if (!plain && !extra && !(extra = entry_need_extra(engine, entry)))
        return false;
    if (extra) {
        struct topic_totals *totals = &entry_topic(engine, entry)->totals;
        extra->attempt = state->attempt;
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
        extra->cancel_requested = state->cancel_requested;
        if (!entry_set_consumer(engine, entry, state->consumer) ||
            (state->progress.len && !entry_set_progress(engine, entry, state->progress)))
            return false;
    }
    entry_set_state_file(engine, entry, place.file, state->ended.outcome);
    return hang_replayed(engine, id, state->state);
}

/* Replays the end of a job. Without an entry, the job is in a run, or its record was in an older file. */
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
    replay_sequence(engine, done->sequence);
    struct topic *topic = done->topic.len ? replay_topic_of(engine, done->topic) : NULL;
    if (!topic || !stub_release_from(engine, topic, record, done->key))
        return false;
    if (!done->carried)
        engine_topic_count_done(topic, done->reason);
    batch_drop(engine, done->sequence);
    if (!record_done_until_ms(done)) {
        replay_end(engine, topic, done->key);
        return true;
    }
    uint32_t id = replay_entry_of(engine, topic, done->key);
    if (!id)
        return false;
    struct entry *entry = entry_at(engine, id);
    entry_drop_extra(engine, entry);
    entry->place = place;
    entry->sequence = done->sequence & 0xffffffffffffffu;
    entry_hang_done(engine, id, done, engine->recovery);
    return true;
}

/* Replays the removal of a topic, which had no jobs then. It may still have slots: of finished jobs whose slot was
 * unknown, and of remembered ids that expired without a record. These are released later, and the topic is freed
 * with the last of them. */
static bool replay_removal(struct engine *engine, struct slice name)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return true;
    for (uint32_t id = 1; topic->remembered + topic->kept && id <= engine->entries.top; id++) {
        const struct entry *entry = entry_at(engine, id);
        if (entry->state == JOB_FINISHED && entry->topic == topic->id) {
            entry_unhang(engine, id);
            entry_forget(engine, id);
        }
    }
    const struct queue_counts *counts = &topic->counts;
    if (counts->delayed + counts->retrying + counts->ready + counts->leased + counts->dead)
        return false;
    flow_forget(engine, topic);
    engine_topic_set(engine, topic, &(struct topic_settings){0});
    topic->totals = (struct topic_totals){0};
    engine_topic_set_pause(engine, topic, false, 0);
    topic->deleting = false;
    topic->exists = false;
    engine_topic_let_go(engine, topic);
    return true;
}

static bool replay_topic(struct engine *engine, const struct record_topic *record)
{
    replay_sequence(engine, record->sequence);
    if (!record->exists)
        return replay_removal(engine, record->topic);
    struct topic *topic = replay_topic_of(engine, record->topic);
    if (!topic || !engine_topic_set(engine, topic, &record->settings))
        return false;
    topic->totals = record->totals;
    topic->totals_at = engine->replayed;
    engine_topic_set_pause(engine, topic, record->paused, record->paused_until_ms);
    topic->deleting = record->deleting;
    return true;
}

static bool replay_group(struct engine *engine, const struct record_group *record)
{
    struct topic *topic = replay_topic_of(engine, record->topic);
    return topic && flow_replay(engine, topic, record);
}

/* Returns the key of the record's entry, for engine_replay_soon. */
static uint64_t record_key_low(const struct engine *engine, const struct record *record)
{
    switch (record->kind) {
    case RECORD_JOB:
        return hash_pair(record->job.topic, record->job.id, engine->hash_seed).low;
    case RECORD_STATE:
        return record->state.key.low;
    case RECORD_DONE:
        return record->done.key.low;
    case RECORD_TOPIC:
    case RECORD_GROUP:
    case RECORD_BATCH:
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
            keys[i] = record_key_low(engine, &records[first + i]);
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
    case RECORD_GROUP:
        return replay_group(engine, &record->group);
    case RECORD_BATCH:
        if (!batch_is_part(engine, record->batch.number))
            replay_sequence(engine, record->batch.number & ~engine->batch_home);
        return batch_replay(engine, &record->batch);
    }
    return false;
}

void engine_start(struct engine *engine, uint64_t epoch)
{
    enum { GAP = 1 << 24 }; /* margin for delivery numbers whose records were lost in a crash */
    uint64_t first = epoch << 32;
    engine->sequence = engine->sequence + GAP > first ? engine->sequence + GAP : first;
    assert(!engine->stubs);
    stub_fini(engine);
    engine_topics_sort(engine);
    engine_end_pauses(engine, engine->recovery);
    (void)flow_advance(engine, engine->recovery, SIZE_MAX);
    batch_replayed(engine);
    engine->recovering = false;
}

void engine_keep_leases(struct engine *engine, int64_t until_ms)
{
    engine->lease_floor_ms = until_ms;
}
