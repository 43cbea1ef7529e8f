/*
 * Finished jobs that leave something behind: jobs that are kept (keep_finished), ids that are remembered
 * (dedup_window), and ends that a client waits for. A topic without any of these never comes here.
 *
 * The entry of a kept job: state JOB_FINISHED, priority ENTRY_KEPT, due_ms when it is no longer kept. With
 * ENTRY_REMEMBERS its id is also remembered. If that ends first, the wheel holds the entry until then and again until
 * due_ms; otherwise ready_at is the further time after due_ms (kept_beyond).
 *
 * The kept jobs of a topic in memory are in a queue, the oldest first. An item whose job has left memory stays in the
 * queue until it comes to the front or the queue is compacted.
 */
#include "engine/state.h"
#include "queue/life.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the time that an id is remembered beyond the keeping of its job ---- */

enum { BEYOND_IN_SECONDS = 1u << 31, BEYOND_UNIT_MS = 1024 };

/* Packs a time into 32 bits: exact up to 24 days, then rounded up to about a second. */
static uint32_t beyond_pack(int64_t ms)
{
    if (ms <= 0)
        return 0;
    if (ms < (int64_t)BEYOND_IN_SECONDS)
        return (uint32_t)ms;
    return BEYOND_IN_SECONDS | (uint32_t)((ms + BEYOND_UNIT_MS - 1) / BEYOND_UNIT_MS);
}

static int64_t beyond_ms(uint32_t packed)
{
    return packed & BEYOND_IN_SECONDS ? (int64_t)(packed & ~BEYOND_IN_SECONDS) * BEYOND_UNIT_MS
                                      : (int64_t)packed;
}

/* Returns until when the id of a kept job is remembered; 0: it is free. */
static int64_t kept_remember_until_ms(const struct entry *entry, struct engine_now now)
{
    if (!(entry->flags & ENTRY_REMEMBERS))
        return 0;
    int64_t until_ms = entry->ready_at ? (int64_t)entry->due_ms + beyond_ms(entry->ready_at)
                                       : entry->timer.when_ms;
    return until_ms > now.inner_ms ? until_ms : 0;
}

bool entry_is_free(const struct entry *entry, struct engine_now now)
{
    return entry_is_kept(entry) && !kept_remember_until_ms(entry, now);
}

/* ---- the queue of the kept jobs of a topic in memory ---- */

static bool item_is_current(const struct engine *engine, const struct topic *topic,
                            const struct kept_item *item)
{
    const struct entry *entry = entry_at(engine, item->id);
    return item->id <= engine->entries.top && entry_is_kept(entry) && entry->topic == topic->id &&
           (uint32_t)entry->sequence == item->sequence;
}

/* Removes the items whose jobs have left memory. */
static void kept_queue_compact(const struct engine *engine, struct topic *topic)
{
    struct kept_queue *queue = &topic->kept_queue;
    uint32_t count = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        struct kept_item item = queue->items[(queue->first + i) % queue->cap];
        if (item_is_current(engine, topic, &item))
            queue->items[(queue->first + count++) % queue->cap] = item;
    }
    queue->count = count;
}

/* Makes room for one more item. Returns false if memory is short: the limits then apply to the other jobs only. */
static bool kept_queue_reserve(const struct engine *engine, struct topic *topic)
{
    enum { LEAST = 64 };
    struct kept_queue *queue = &topic->kept_queue;
    if (queue->count < queue->cap)
        return true;
    kept_queue_compact(engine, topic);
    if (queue->count < queue->cap / 2)
        return true;
    uint32_t cap = queue->cap ? queue->cap * 2 : LEAST;
    struct kept_item *items = malloc(cap * sizeof *items);
    if (!items)
        return false;
    for (uint32_t i = 0; i < queue->count; i++)
        items[i] = queue->items[(queue->first + i) % queue->cap];
    free(queue->items);
    *queue = (struct kept_queue){.items = items, .count = queue->count, .cap = cap};
    return true;
}

static void kept_queue_add(const struct engine *engine, struct topic *topic, uint32_t id)
{
    struct kept_queue *queue = &topic->kept_queue;
    if (kept_queue_reserve(engine, topic))
        queue->items[(queue->first + queue->count++) % queue->cap] =
            (struct kept_item){id, (uint32_t)entry_at(engine, id)->sequence};
}

/* Removes the oldest kept job in memory from the queue and returns it, or 0 if the queue is empty. */
static uint32_t kept_queue_take(const struct engine *engine, struct topic *topic)
{
    struct kept_queue *queue = &topic->kept_queue;
    while (queue->count) {
        struct kept_item item = queue->items[queue->first];
        queue->first = (queue->first + 1) % queue->cap;
        queue->count--;
        if (item_is_current(engine, topic, &item))
            return item.id;
    }
    free(queue->items);
    *queue = (struct kept_queue){0};
    return 0;
}

/* ---- linking ---- */

void entry_hang_done(struct engine *engine, uint32_t id, const struct record_done *done,
                     struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    int64_t keep_ms = done->keep_until_ms, remember_ms = done->remember_until_ms;
    entry->state_file = 0;
    entry->flags = 0;
    entry->priority = keep_ms ? ENTRY_KEPT : 0;
    entry->due_ms = (uint64_t)(keep_ms ? keep_ms : remember_ms) & 0xffffffffffffu;
    entry->ready_at = 0;
    if (keep_ms && remember_ms > now.inner_ms) {
        entry->flags = ENTRY_REMEMBERS;
        entry->ready_at = beyond_pack(remember_ms - keep_ms);
    }
    entry_hang(engine, id, JOB_FINISHED, now);
    if (!keep_ms)
        return;
    if (entry->flags & ENTRY_REMEMBERS && !entry->ready_at && remember_ms < keep_ms) {
        wheel_remove(&engine->wheel, id);
        wheel_add(&engine->wheel, id, remember_ms);
    }
    kept_queue_add(engine, entry_topic(engine, entry), id);
}

/* Appends a record that replaces the one of a finished job: without the job, and remembered until then (0: not at all).
 * Relinks or forgets the entry. */
static void kept_replace(struct engine *engine, uint32_t id, int64_t remember_ms,
                         struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    struct record record = {.kind = RECORD_DONE,
                            .from = entry_slot(entry),
                            .done = {.key = entry->key,
                                     .reason = RECORD_PURGED,
                                     .remember_until_ms = remember_ms,
                                     .sequence = entry->sequence,
                                     .topic = entry_topic(engine, entry)->name,
                                     .carried = true}};
    struct record_place place = engine->sink.append(engine->sink.ctx, &record);
    entry_unhang(engine, id);
    if (!remember_ms) {
        entry_forget(engine, id);
        return;
    }
    entry_release(engine, entry);
    entry->place = place;
    entry_hang_done(engine, id, &record.done, now);
}

void kept_drop(struct engine *engine, uint32_t id, struct engine_now now)
{
    kept_replace(engine, id, kept_remember_until_ms(entry_at(engine, id), now), now);
}

void kept_fall_due(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    int64_t remember_ms = kept_remember_until_ms(entry, now);
    if ((int64_t)entry->due_ms > now.inner_ms) { /* only the id is no longer remembered */
        entry->flags = 0;
        wheel_remove(&engine->wheel, id);
        wheel_add(&engine->wheel, id, (int64_t)entry->due_ms);
    } else if (remember_ms) {
        kept_replace(engine, id, remember_ms, now);
    } else {
        entry_unhang(engine, id);
        entry_forget(engine, id);
    }
}

/* ---- limits: the oldest kept jobs are dropped first ---- */

uint64_t engine_topic_kept_cold(const struct topic *topic)
{
    return topic->stored[SECTION_KEPT] - topic->loaded[SECTION_KEPT];
}

uint64_t engine_topic_kept_bytes(const struct topic *topic)
{
    return topic->kept_bytes + topic->stored_kept_bytes - topic->loaded_kept_bytes;
}

static uint64_t share_of(const struct engine *engine, const struct topic *topic, uint64_t limit)
{
    return flow_share(limit, flow_topic_shares(engine, topic));
}

/* Returns whether the topic keeps more than it may, by more than 1/`slack` of the limit, and which limit that is. */
static bool kept_is_beyond(const struct engine *engine, const struct topic *topic, uint64_t slack,
                           enum queue_drop *reason)
{
    const struct topic_settings *settings = &topic->settings;
    uint64_t most = share_of(
        engine, topic, settings->keep_finished_max ? settings->keep_finished_max : TOPIC_KEEP_JOBS);
    uint64_t bytes_most =
        share_of(engine, topic,
                 settings->keep_finished_bytes ? settings->keep_finished_bytes : TOPIC_KEEP_BYTES);
    *reason = QUEUE_DROP_NUMBER;
    if (topic->kept + engine_topic_kept_cold(topic) > most + (slack ? most / slack : 0))
        return true;
    *reason = QUEUE_DROP_BYTES;
    return engine_topic_kept_bytes(topic) > bytes_most + (slack ? bytes_most / slack : 0);
}

/* Drops the oldest jobs of a topic that keeps too many. If the oldest are cold, the owner of the runs drops them
 * (engine_trim_next). At most two are dropped for each that is added, so that the room in the log suffices. */
static void kept_trim(struct engine *engine, struct topic *topic, struct engine_now now)
{
    enum { AT_ONCE = 2, COLD_SLACK = 64 };
    enum queue_drop reason;
    if (engine_topic_kept_cold(topic)) {
        if (kept_is_beyond(engine, topic, COLD_SLACK, &reason))
            engine->trim_topic = topic->id;
        return;
    }
    for (int i = 0; i < AT_ONCE && kept_is_beyond(engine, topic, 0, &reason); i++) {
        uint32_t oldest = kept_queue_take(engine, topic);
        if (!oldest)
            return;
        engine->dropped[reason]++;
        kept_drop(engine, oldest, now);
    }
}

bool engine_trim_next(struct engine *engine, struct slice *topic)
{
    uint32_t id = engine->trim_topic;
    engine->trim_topic = 0;
    if (!id || !engine->topics[id])
        return false;
    *topic = engine->topics[id]->name;
    return true;
}

bool engine_trim_one(struct engine *engine, struct hash128 key, struct engine_now now)
{
    uint32_t id = engine_index_find(engine, key);
    enum queue_drop reason;
    if (!id || !entry_is_kept(entry_at(engine, id)))
        return true;
    if (!kept_is_beyond(engine, entry_topic(engine, entry_at(engine, id)), 0, &reason))
        return false;
    engine->dropped[reason]++;
    kept_drop(engine, id, now);
    return true;
}

/* ---- the end of a job ---- */

/* Reads the job of an entry. */
static bool read_job(struct engine *engine, const struct entry *entry, struct job *job)
{
    const struct extra *extra = entry_extra(engine, entry);
    return engine->sink.read && engine->sink.read(engine->sink.ctx, entry->place,
                                                  extra && extra->next == NEXT_STARTED, job);
}

/* Fills in what is kept of a job. `taken`: it was taken and acked in one step. */
static void fill_kept(struct engine *engine, const struct entry *entry, const struct job *job,
                      const struct queue_answer *answer, bool taken, struct engine_now now,
                      struct record_kept *kept)
{
    const struct extra *extra = entry_extra(engine, entry);
    bool is_leased = entry->state == JOB_LEASED;
    int64_t finished_ms = now.inner_ms + now.skew_ms;
    *kept = (struct record_kept){.finished_ms = finished_ms > 0 ? finished_ms : 0,
                                 .attempt = entry_attempt(engine, entry) + taken,
                                 .id = job->id,
                                 .group = job->group,
                                 .batch = job->batch,
                                 .consumer = entry_consumer(engine, entry),
                                 .meta = job->meta,
                                 .history = entry_history(extra),
                                 .progress = entry_progress(engine, entry)};
    if (is_leased && extra->taken_ms && extra->taken_ms < now.inner_ms)
        kept->duration_ms = now.inner_ms - extra->taken_ms;
    if (answer) {
        kept->result = answer->result;
        kept->result_type = answer->result_type;
    }
    if (entry_topic(engine, entry)->settings.keep_body) {
        kept->has_body = true;
        kept->content_type = job->content_type;
        kept->body = job->body;
    }
}

/* Reports the end to the clients that wait for it. */
static void report_end(const struct engine *engine, const struct topic *topic, struct hash128 key,
                       enum record_reason reason, const struct record_kept *kept)
{
    if (topic->awaited && engine->sink.ended)
        engine->sink.ended(engine->sink.ctx, &(struct engine_ended){.topic = topic->name,
                                                                    .key = key,
                                                                    .outcome = life_end(reason),
                                                                    .is_gone = !life_end(reason),
                                                                    .kept = kept});
}

void kept_finish(struct engine *engine, uint32_t id, enum record_reason reason,
                 const struct queue_answer *answer, bool taken, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    const struct extra *extra = entry_extra(engine, entry);
    const struct hash128 key = entry->key;
    struct record_kept kept = {0};
    struct job job = {0};
    enum job_end end = life_end(reason);
    int64_t window_ms = end ? topic->settings.dedup_window_ms : 0;
    int64_t keep_ms = life_keep_ms(end, false, 0, &topic->settings);
    bool keeps_own = extra && extra->marks & EXTRA_KEEPS_OWN, has_job = false;
    if (end && (keep_ms || keeps_own || topic->awaited)) {
        has_job = read_job(engine, entry, &job);
        if (!has_job && (keep_ms || keeps_own))
            engine->dropped[QUEUE_DROP_UNREADABLE]++;
        if (has_job)
            keep_ms = life_keep_ms(end, job.has_keep, job.keep_ms, &topic->settings);
        fill_kept(engine, entry, &job, answer, taken, now, &kept);
    }
    struct record record = {
        .kind = RECORD_DONE,
        .from = entry_slot(entry),
        .done = {.key = key,
                 .reason = reason,
                 .remember_until_ms = window_ms ? now.inner_ms + 1 + window_ms : 0,
                 .sequence = entry->sequence,
                 .topic = topic->name}};
    char *bytes = NULL;
    if (has_job && keep_ms && !(bytes = malloc(record_kept_bytes_max(&kept))))
        engine->dropped[QUEUE_DROP_UNREADABLE]++;
    if (bytes) {
        record.done.keep_until_ms = now.inner_ms + 1 + keep_ms;
        record.done.kept = slice_make(bytes, record_kept_encode(&kept, bytes));
    }
    struct record_place place = engine->sink.append(engine->sink.ctx, &record);
    engine_topic_count_done(topic, reason);
    entry_ended(engine, id, reason, now);
    report_end(engine, topic, key, reason, &kept);
    free(bytes);
    if (!record_done_until_ms(&record.done)) {
        entry_forget(engine, id);
        return;
    }
    entry_release(engine, entry);
    entry_drop_extra(engine, entry);
    entry->place = place;
    entry_hang_done(engine, id, &record.done, now);
    kept_trim(engine, topic, now);
}

void kept_died(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    struct record_kept kept;
    struct job job = {0};
    if (!engine->sink.ended)
        return;
    (void)read_job(engine, entry, &job);
    fill_kept(engine, entry, &job, engine->answer, false, now, &kept);
    engine->sink.ended(engine->sink.ctx,
                       &(struct engine_ended){.topic = entry_topic(engine, entry)->name,
                                              .key = entry->key,
                                              .error = entry_error(entry_extra(engine, entry)),
                                              .due_ms = entry_due_wall_ms(entry, now.skew_ms),
                                              .delivery = entry_extra(engine, entry)->delivery,
                                              .priority = (uint16_t)entry->priority,
                                              .kept = &kept});
}

void engine_ended_show(const struct engine_ended *ended, struct slice id, struct queue_job *out,
                       struct queue_end *end)
{
    const struct record_kept *kept = ended->kept;
    *end = (struct queue_end){.outcome = ended->outcome,
                              .finished_ms = kept->finished_ms,
                              .duration_ms = kept->duration_ms,
                              .has_body = kept->has_body,
                              .result = kept->result,
                              .result_type = kept->result_type};
    *out = (struct queue_job){.job = {.topic = ended->topic,
                                      .id = id,
                                      .group = kept->group,
                                      .batch = kept->batch,
                                      .meta = kept->meta,
                                      .consumer = kept->consumer,
                                      .history = kept->history,
                                      .progress = kept->progress,
                                      .error = ended->error,
                                      .content_type = kept->content_type,
                                      .body = kept->body,
                                      .attempt = kept->attempt,
                                      .due_ms = ended->due_ms,
                                      .delivery = ended->delivery,
                                      .priority = ended->outcome ? JOB_PRIORITY : ended->priority,
                                      .state = ended->outcome ? JOB_FINISHED : JOB_DEAD},
                              .end = ended->outcome || kept->result.len ? end : NULL};
}

/* ---- waits for ends ---- */

void engine_topic_mind(struct engine *engine, struct topic *topic)
{
    bool keeps = topic->settings.keep_finished_ms || topic->has_own_keeps;
    topic->minds_ends = topic->settings.dedup_window_ms || keeps || topic->awaited;
    engine->keeps_ends = engine->keeps_ends || keeps;
}

/* ---- room in the log ---- */

/* Returns the room that the DONE record of a job needs beyond ENGINE_STATE_BYTES_MAX, without a result. */
static size_t kept_room(const struct engine *engine, uint32_t id)
{
    enum { TEXTS = JOB_HISTORY_BYTES_MAX + JOB_CONSUMER_BYTES_MAX + JOB_PROGRESS_BYTES_MAX };
    const struct entry *entry = entry_at(engine, id);
    return entry_topic(engine, entry)->minds_ends
               ? entry->place.bytes + (size_t)TEXTS + ENGINE_STATE_BYTES_MAX
               : 0;
}

bool engine_keeps_ends(const struct engine *engine)
{
    return engine->keeps_ends;
}

size_t engine_room_end(const struct engine *engine, struct slice topic, struct slice id_text)
{
    if (!engine->keeps_ends)
        return 0;
    uint32_t id = engine_index_find(engine, hash_pair(topic, id_text, engine->hash_seed));
    return id ? kept_room(engine, id) : 0;
}

size_t engine_room_answer(const struct engine *engine, const struct engine_lease *lease,
                          const struct queue_answer *answer)
{
    if (answer->verb == QUEUE_EXTEND)
        return answer->progress.len;
    uint32_t id = engine->keeps_ends ? engine_index_find_lease(engine, lease) : 0;
    return id ? kept_room(engine, id) + answer->result.len + answer->result_type.len : 0;
}

size_t engine_room_pop(const struct engine *engine, uint32_t ready)
{
    return engine->keeps_ends ? kept_room(engine, ready) : 0;
}

bool kept_waits_for_room(struct engine *engine, uint32_t id, struct engine_now now)
{
    enum { RETRY_MS = 20 };
    size_t bytes = engine->keeps_ends ? kept_room(engine, id) : 0;
    if (!bytes || !engine->sink.has_room || engine->sink.has_room(engine->sink.ctx, bytes))
        return false;
    wheel_remove(&engine->wheel, id);
    wheel_add(&engine->wheel, id, now.inner_ms + RETRY_MS);
    return true;
}

bool engine_await(struct engine *engine, struct slice name, bool on)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return false;
    if (on)
        topic->awaited++;
    else if (topic->awaited)
        topic->awaited--;
    engine_topic_mind(engine, topic);
    return true;
}

/* ---- look-up ---- */

void kept_view(const struct engine *engine, uint32_t id, struct engine_now now,
               struct engine_view *out)
{
    const struct entry *entry = entry_at(engine, id);
    entry_view(engine, id, now, out);
    out->due_ms = queue_finished_rank((int64_t)entry->due_ms + now.skew_ms);
    out->sequence = queue_finished_rank_sequence(entry->sequence);
}

bool engine_show_kept(struct engine *engine, struct hash128 key, uint64_t sequence,
                      struct engine_now now, struct engine_view *out)
{
    uint32_t id = engine_index_find(engine, key);
    const struct entry *entry = id ? entry_at(engine, id) : NULL;
    if (!entry || !entry_is_kept(entry) || (int64_t)entry->due_ms <= now.inner_ms ||
        entry->sequence != (sequence & 0xffffffffffffffu))
        return false;
    kept_view(engine, id, now, out);
    return true;
}

bool engine_find_kept(struct engine *engine, struct slice topic, struct slice id_text,
                      struct engine_now now, struct engine_view *out)
{
    uint32_t id = engine_index_find(engine, hash_pair(topic, id_text, engine->hash_seed));
    const struct entry *entry = id ? entry_at(engine, id) : NULL;
    if (!entry || !entry_is_kept(entry) || (int64_t)entry->due_ms <= now.inner_ms)
        return false;
    kept_view(engine, id, now, out);
    return true;
}
