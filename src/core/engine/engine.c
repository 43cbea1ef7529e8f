#include "engine/state.h"
#include "queue/life.h"

#include <assert.h>
#include <stdlib.h>

struct engine *engine_new(const struct engine_options *options)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    if (!engine_index_init(&engine->index) ||
        !forecast_pages_init(&engine->forecast, options->now.skew_ms)) {
        engine_index_fini(&engine->index);
        free(engine);
        return NULL;
    }
    engine->sink = options->sink;
    engine->hash_seed = options->hash_seed;
    engine->body_bytes_max = options->body_bytes_max;
    engine->topics_max = options->topics_max;
    engine->shards = options->shards ? options->shards : 1;
    engine->shard = options->shard;
    if (engine->shards > 1)
        engine->batch_home = (uint64_t)(options->shard + 1) << QUEUE_BATCH_HOME_SHIFT;
    engine->random.state = options->random_seed;
    engine->recovering = true;
    engine->pause_end_ms = INT64_MAX;
    slab_init(&engine->entries, sizeof(struct entry));
    slab_init(&engine->extras, sizeof(struct extra));
    slab_init(&engine->successors, sizeof(struct successor));
    slab_init(&engine->steps, sizeof(struct steps));
    engine->recovery = options->now;
    engine->skew_ms = options->now.skew_ms;
    wheel_init(&engine->wheel, &engine->entries, options->now.inner_ms);
    return engine;
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    for (uint32_t id = 1; id <= engine->entries.top; id++) {
        const struct entry *entry = entry_at(engine, id);
        if (entry->state && entry->extra)
            free(entry_extra(engine, entry)->text);
        if (entry->state && engine->sink.release && !record_place_is_run(entry->place))
            engine->sink.release(engine->sink.ctx, entry->place);
    }
    stub_fini(engine);
    engine_topics_fini(engine);
    engine_index_fini(&engine->index);
    forecast_pages_fini(&engine->forecast);
    flows_free(engine);
    batches_free(engine);
    slab_fini(&engine->steps);
    slab_fini(&engine->successors);
    slab_fini(&engine->extras);
    slab_fini(&engine->entries);
    free(engine);
}

void engine_notify(struct engine *engine, uint32_t kinds)
{
    engine->event_kinds = engine->sink.event ? kinds : 0;
}

/* ---- time ---- */

/* Starts the successor of an unlinked job whose lease ended. Returns false if the job has no successor. */
static inline bool start_next(struct engine *engine, uint32_t id, enum life_step step,
                              enum queue_verb verb, struct engine_now now)
{
    if (__builtin_expect(!entry_extra(engine, entry_at(engine, id))->successor, 1))
        return false;
    entry_start_next(engine, id, life_next(step, verb), now);
    return true;
}

/* Drops the successor of a member whose batch was stopped. */
static inline void drop_next_if_stopped(struct engine *engine, uint32_t id)
{
    struct extra *extra = entry_extra(engine, entry_at(engine, id));
    if (__builtin_expect(extra->successor != 0, 0) && batch_stop_concerns(engine, extra))
        entry_drop_next(engine, extra);
}

/* Cancels a job whose cancel was requested while it was leased. Already unlinked. */
static void cancel_requested(struct engine *engine, uint32_t id, struct engine_now now)
{
    entry_notify(engine, id, JOB_EVENT_CANCELLED, (struct slice){0}, (struct slice){0}, now);
    drop_next_if_stopped(engine, id);
    if (!start_next(engine, id, LIFE_CANCELLED, 0, now))
        entry_finish(engine, id, RECORD_CANCELLED, now);
}

/* Links a leased job again, after its lease or its record has changed. It keeps its slot (flow.h). */
static void lease_hang_again(struct engine *engine, uint32_t id, struct engine_now now)
{
    engine->flow_is_busy = true;
    entry_unhang(engine, id);
    entry_hang(engine, id, JOB_LEASED, now);
    engine->flow_is_busy = false;
}

/* Ends a lease without an answer: the attempt failed. */
static void lease_ended(struct engine *engine, uint32_t id, struct engine_now now)
{
    const struct extra *extra = entry_extra(engine, entry_at(engine, id));
    if (entry_lease_end_ms(engine, extra) > now.inner_ms) { /* linked before the recovery ended */
        lease_hang_again(engine, id, now);
        return;
    }
    if (life_lease_end(extra_cancel_requested(engine, extra)) == LIFE_CANCELLED) {
        if (kept_waits_for_room(engine, id, now))
            return;
        entry_unhang(engine, id);
        cancel_requested(engine, id, now);
        return;
    }
    entry_unhang(engine, id);
    if (extra->successor) {
        entry_notify(engine, id, JOB_EVENT_LEASE_ENDED, (struct slice){0}, (struct slice){0}, now);
        (void)start_next(engine, id, LIFE_RETRIED, 0, now);
        return;
    }
    entry_topic(engine, entry_at(engine, id))->totals.lease_ended++;
    entry_fail(engine, id, JOB_OUTCOME_LEASE_ENDED, -1, slice_of("lease ended"), now);
}

/* Expires a job that was not taken within its ttl. */
static void ready_expired(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    const struct slice none = {0};
    if (kept_waits_for_room(engine, id, now))
        return;
    if (batch_is_leftover(engine, entry)) {
        batch_remove_leftover(engine, id, now);
        return;
    }
    entry_unhang(engine, id);
    entry_notify(engine, id, JOB_EVENT_EXPIRED, none, none, now);
    /* If there is no memory for the extra, the job expires as if the topic kept no dead letters. */
    if (life_expire(&topic->settings) == LIFE_EXPIRED || !entry_need_extra(engine, entry)) {
        entry_finish(engine, id, RECORD_EXPIRED, now);
        return;
    }
    entry_set_texts(engine, entry, entry_history(entry_extra(engine, entry)), slice_of("expired"));
    entry_hang(engine, id, JOB_DEAD, now);
    entry_died(engine, entry);
    entry_record(engine, id);
    if (__builtin_expect(entry_extra(engine, entry)->policy.batch != 0, 0))
        batch_member_changed(engine, entry_extra(engine, entry)->policy.batch, BATCH_UNFINISHED,
                             BATCH_DEAD, now);
    entry_notify(engine, id, JOB_EVENT_DEAD, none, slice_of("expired"), now);
    if (topic->awaited)
        kept_died(engine, id, now);
}

/* Handles an entry that the wheel returned, by its state. */
static void fall_due(struct engine *engine, uint32_t id, struct engine_now now)
{
    switch ((enum job_state)entry_at(engine, id)->state) {
    case JOB_DELAYED:
        if (entry_at(engine, id)->extra && entry_is_kept_back(engine, entry_at(engine, id))) {
            batch_kept_back_due(engine, id, now);
            break;
        }
        entry_unhang(engine, id);
        /* The entry becomes delayed again if the wall clock was set back. */
        entry_hang(engine, id, JOB_READY, now);
        if (entry_at(engine, id)->state == JOB_READY)
            entry_notify(engine, id, JOB_EVENT_DUE, (struct slice){0}, (struct slice){0}, now);
        break;
    case JOB_READY:
        ready_expired(engine, id, now);
        break;
    case JOB_LEASED:
        lease_ended(engine, id, now);
        break;
    case JOB_FINISHED:
        if (entry_is_kept(entry_at(engine, id))) {
            kept_fall_due(engine, id, now);
            break;
        }
        entry_unhang(engine, id);
        entry_forget(engine, id);
        break;
    case JOB_DEAD:
        assert(false); /* a dead job has no timer */
    }
}

/* Returns whether jobs are left to retime. Begins a retime after a step of the wall clock; a step during a retime
 * waits for its end, because a job is counted by one of two phases. */
static bool retime_is_due(struct engine *engine, struct engine_now now)
{
    if (!engine->retime_at && now.skew_ms != engine->skew_ms) {
        forecast_pages_shift(&engine->forecast, now.skew_ms - engine->skew_ms);
        engine->skew_ms = now.skew_ms;
        engine->retime_at = 1;
    }
    return engine->retime_at;
}

static void retime_delayed(struct engine *engine, uint32_t id, struct engine_now now)
{
    if (entry_at(engine, id)->flags & ENTRY_DUE_IS_WALL) {
        entry_unhang(engine, id);
        engine->retime_at++;
        entry_hang(engine, id, JOB_DELAYED, now);
    } else {
        entry_uncount_due(engine, id);
        engine->retime_at++;
        entry_count_due(engine, id, now);
    }
}

/* After a step of the wall clock, moves jobs due by it to their new place in the wheel, and counts all delayed jobs
 * by the new minutes. Until this has finished, a step forward leaves jobs in the wheel too late, and forecasts are
 * estimates. */
static void retime_some(struct engine *engine, struct engine_now now)
{
    for (uint32_t steps = 4096; steps && retime_is_due(engine, now); steps--) {
        if (engine->retime_at > engine->entries.top)
            engine->retime_at = 0;
        else if (entry_at(engine, engine->retime_at)->state == JOB_DELAYED)
            retime_delayed(engine, engine->retime_at, now);
        else
            engine->retime_at++;
    }
}

size_t engine_advance(struct engine *engine, struct engine_now now, size_t max)
{
    enum { AT_ONCE = 256 };
    uint32_t ids[AT_ONCE];
    size_t done = 0;
    retime_some(engine, now);
    engine_end_pauses(engine, now);
    if (__builtin_expect(engine->batches && engine->batches->sweep_at, 0))
        batch_sweep(engine, now, max);
    if (engine->flows)
        done = flow_advance(engine, now, max);
    while (done < max) {
        size_t want = max - done < AT_ONCE ? max - done : AT_ONCE;
        size_t got = wheel_take_due(&engine->wheel, now.inner_ms, ids, want);
        for (size_t i = 0; i < got; i++)
            fall_due(engine, ids[i], now);
        engine->happened += got;
        done += got;
        if (got < want)
            break;
    }
    return done;
}

int64_t engine_next_ms(const struct engine *engine)
{
    bool sweeps = engine->batches && engine->batches->sweep_at;
    int64_t next_ms = engine->retime_at || sweeps ? 0 : wheel_next_ms(&engine->wheel);
    if (__builtin_expect(engine->flows != NULL, 0) && flow_next_ms(engine) < next_ms)
        next_ms = flow_next_ms(engine);
    return next_ms < engine->pause_end_ms ? next_ms : engine->pause_end_ms;
}

uint64_t engine_happened(const struct engine *engine)
{
    return engine->happened;
}

/* ---- push ---- */

size_t engine_room_change(const struct engine *engine)
{
    return ENGINE_STATE_BYTES_MAX + (engine->batches ? (size_t)ENGINE_BATCH_BYTES_MAX : 0);
}

size_t engine_room_push(const struct queue_push *push)
{
    enum { JOB_ROOM = 2 * ENGINE_STATE_BYTES_MAX }; /* everything but text, and a STATE record */
    return push->topic.len + (size_t)JOB_ID_BYTES_MAX +
           (push->batch ? (size_t)JOB_BATCH_BYTES_MAX + 2 * ENGINE_BATCH_BYTES_MAX : 0) +
           push->content_type.len + push->meta.len + push->body.len + push->past.error.len +
           JOB_ROOM + (push->once.len ? ENGINE_STATE_BYTES_MAX : 0) +
           (push->policy.backoff.kind == BACKOFF_LIST ? RECORD_STEPS_BYTES_MAX : 0);
}

/* Returns the leased job whose successor the push becomes; 0: there is no such job. */
static uint32_t find_running(const struct engine *engine, const struct queue_push *push)
{
    if (push->on_conflict != CONFLICT_AFTER)
        return 0;
    uint32_t id = engine_index_find(engine, hash_pair(push->topic, push->id, engine->hash_seed));
    return id && entry_at(engine, id)->state == JOB_LEASED ? id : 0;
}

size_t engine_room_next(const struct engine *engine, const struct queue_push *push)
{
    enum { TEXTS = JOB_HISTORY_BYTES_MAX + JOB_ERROR_BYTES_MAX + JOB_CONSUMER_BYTES_MAX };
    uint32_t id = find_running(engine, push);
    /* The push may replace a member, which stays one. */
    size_t of_batch = engine->batches ? (size_t)JOB_BATCH_BYTES_MAX + ENGINE_BATCH_BYTES_MAX : 0;
    return of_batch + (id ? entry_at(engine, id)->place.bytes + push->topic.len + push->id.len +
                                TEXTS + (size_t)2 * ENGINE_STATE_BYTES_MAX
                          : 0);
}

size_t engine_room_again(struct record_place place, const struct queue_again *again)
{
    return place.bytes + again->content_type.len + again->body.len + (size_t)JOB_HISTORY_BYTES_MAX +
           (size_t)4 * ENGINE_STATE_BYTES_MAX;
}

/* Converts to a due. Relative times start from the next whole millisecond: rounded up, never early. */
static bool when_to_due(const struct queue_when *when, struct engine_now now, int64_t *due_ms,
                        bool *is_wall)
{
    *is_wall = false;
    *due_ms = now.inner_ms;
    if (when->due == QUEUE_DUE_DELAY && when->ms)
        *due_ms = now.inner_ms + 1 + when->ms;
    if (when->due == QUEUE_DUE_AT && when->ms > now.wall_ms) {
        if (when->ms - now.wall_ms > POLICY_DELAY_MS_MAX)
            return false;
        *due_ms = when->ms;
        *is_wall = true;
    }
    return true;
}

static bool policy_is_set(const struct policy *policy)
{
    return policy->lease_ms || policy->ttl_ms || policy->backoff.kind || policy->max_attempts;
}

static bool past_is_set(const struct queue_past *past)
{
    return past->attempt || past->dead || past->error.len;
}

static void entry_set_due(struct entry *entry, int64_t due_ms, bool is_wall)
{
    entry->due_ms = (uint64_t)due_ms & 0xffffffffffffu;
    entry->flags = is_wall ? ENTRY_DUE_IS_WALL : 0;
}

/* Returns the job of the key; 0: no job. A remembered id whose time has run out is free, even if engine_advance
 * has not reached it yet; its topic may be removed with it. */
static uint32_t find_existing(struct engine *engine, struct hash128 key, struct engine_now now)
{
    uint32_t id = engine_index_find(engine, key);
    const struct entry *entry = id ? entry_at(engine, id) : NULL;
    if (!entry || entry->state != JOB_FINISHED || (int64_t)entry->due_ms > now.inner_ms)
        return id;
    if (entry_is_kept(entry) && !entry_is_free(entry, now))
        return id; /* no longer kept, but remembered */
    entry_unhang(engine, id);
    entry_forget(engine, id);
    return 0;
}

struct hash128 engine_key_soon(const struct engine *engine, struct slice topic, struct slice id)
{
    struct hash128 key = hash_pair(topic, id, engine->hash_seed);
    engine_index_prefetch(engine, key.low);
    return key;
}

void engine_push(struct engine *engine, const struct queue_push *push, struct engine_now now,
                 struct queue_result *result)
{
    engine_push_key(engine, push, hash_pair(push->topic, push->id, engine->hash_seed), now, result);
}

/* Encodes the successor. NULL: out of memory. */
static char *encode_next(const struct job *next, size_t *bytes)
{
    struct record record = {.kind = RECORD_JOB, .origin = RECORD_CARRIED, .job = *next};
    char *text = malloc(record_bytes_max(&record));
    *bytes = text ? record_encode(&record, text) : 0;
    return text;
}

/* Appends the record of a leased job with its successor, and links the job again. */
static void record_with_next(struct engine *engine, uint32_t id, const struct job *texts,
                             struct slice next)
{
    struct entry *entry = entry_at(engine, id);
    const struct extra *extra = entry_extra(engine, entry);
    struct record record = {.kind = RECORD_JOB,
                            .from = entry_slot(entry),
                            .origin = RECORD_CARRIED,
                            .job = {.topic = texts->topic,
                                    .id = texts->id,
                                    .group = texts->group,
                                    .content_type = texts->content_type,
                                    .meta = texts->meta,
                                    .body = texts->body,
                                    .error = entry_error(extra),
                                    .history = entry_history(extra),
                                    .state = JOB_LEASED,
                                    .due_is_wall = entry->flags & ENTRY_DUE_IS_WALL,
                                    .priority = (uint16_t)entry->priority,
                                    .attempt = extra->attempt,
                                    .due_ms = (int64_t)entry->due_ms,
                                    .first_due_ms = extra->first_due_ms,
                                    .lease_until_ms = extra->lease_until_ms,
                                    .taken_ms = extra->taken_ms,
                                    .consumer = entry_consumer(engine, entry),
                                    .cancel_requested = extra->cancel_requested,
                                    .progress = entry_progress(engine, entry),
                                    .has_keep = texts->has_keep,
                                    .keep_ms = texts->keep_ms,
                                    .sequence = entry->sequence,
                                    .delivery = extra->delivery,
                                    .policy = own_policy_show(engine, &extra->policy),
                                    .batch = texts->batch,
                                    .next = next}};
    struct record_place place = engine->sink.append(engine->sink.ctx, &record);
    entry_release(engine, entry);
    entry->place = place;
    entry_is_recorded(engine, entry);
}

/* Stores the successor of a leased job. The record of the job is written again with it: so a job has one record, which
 * holds all of it. `next` is the successor as a push left it. */
static __attribute__((noinline)) void push_next(struct engine *engine, uint32_t id, struct job next,
                                                struct life life, struct engine_now now,
                                                struct queue_result *result)
{
    struct entry *entry = entry_at(engine, id);
    struct extra *extra = entry_extra(engine, entry);
    struct job running;
    size_t bytes;
    if (!engine->sink.read ||
        !engine->sink.read(engine->sink.ctx, entry->place, extra->next == NEXT_STARTED, &running)) {
        result->status = QUEUE_UNAVAILABLE;
        return;
    }
    next.sequence = engine->sequence + 1;
    char *text = encode_next(&next, &bytes);
    struct job owner = {.next = slice_make(text, bytes)};
    uint8_t was = extra->next;
    if (!text || !entry_set_next(engine, extra, &owner)) {
        extra->next = was; /* a successor that waited keeps its place in the slab */
        free(text);
        result->status = QUEUE_NO_MEMORY;
        return;
    }
    engine->flow_is_busy = true;
    entry_unhang(engine, id);
    record_with_next(engine, id, &running, owner.next);
    entry_hang(engine, id, JOB_LEASED, now);
    engine->flow_is_busy = false;
    free(text);
    result->status = life.status;
    result->state = JOB_LEASED;
    result->due_ms = next.due_ms + (next.due_is_wall ? 0 : now.skew_ms);
}

/* Prepares the batches of a push that passes all other checks. `itself`: the batches of a job that is pushed again. Returns
 * whether it may be stored; else *result is set. */
static __attribute__((noinline)) bool push_batched(struct engine *engine,
                                                   const struct queue_push *push,
                                                   struct hash128 key, uint32_t old,
                                                   const struct batch_push *itself, bool is_next,
                                                   struct engine_now now, struct batch_push *out,
                                                   struct queue_result *result)
{
    if (itself) {
        *out = *itself;
        out->encoded.at = out->room;
        return true;
    }
    if (is_next && push->batch && push->batch->waits) {
        result->status = QUEUE_LEASED;
        return false;
    }
    enum queue_status status =
        batch_push_begin(engine, push, key, old, engine->sequence + 1, now, out, &result->detail);
    if (!status)
        return true;
    result->status = status;
    if (status == QUEUE_WAITS)
        result->due_ms = 0;
    return false;
}

/* `itself`: the job was acked to be pushed again, so a full topic has room for it; with its batches, or empty. */
static void push_stored(struct engine *engine, const struct queue_push *push, struct hash128 key,
                        const struct batch_push *itself, struct engine_now now,
                        struct queue_result *result)
{
    struct batch_push batched;
    int64_t due_ms;
    bool is_wall;
    if (!when_to_due(&push->when, now, &due_ms, &is_wall)) {
        result->status = QUEUE_BAD_OPTION;
        result->detail = "at";
        return;
    }
    uint32_t id = find_existing(engine, key, now), extra = 0;
    if (id && entry_at(engine, id)->extra && batch_is_leftover(engine, entry_at(engine, id))) {
        batch_remove_leftover(engine, id, now);
        id = find_existing(engine, key, now);
    }
    struct topic *topic = engine_topic_find(engine, push->topic);
    bool has_topic = topic;
    if (!topic && (result->status = engine_topic_make(engine, push->topic, &topic)) != QUEUE_OK)
        return;

    bool is_plain = !policy_is_set(&push->policy) && !past_is_set(&push->past) &&
                    !push->has_keep_finished && !push->group.len;
    bool has_batch = push->batch || (itself && itself->member_of);
    const struct entry *old = id ? entry_at(engine, id) : NULL;
    if (old && __builtin_expect(entry_is_free(old, now), 0)) /* the new job takes its entry */
        old = NULL;
    bool is_new = !old;
    struct life life =
        life_push(old ? (enum job_state)old->state : 0,
                  push->on_conflict ? push->on_conflict : topic->settings.on_conflict,
                  !old && !itself && engine_topic_is_full(engine, topic),
                  old && old->extra && entry_extra(engine, old)->successor);
    result->status = life.status;
    if (old) {
        result->state = (enum job_state)old->state;
        if (old->state != JOB_FINISHED && !entry_waits_for_members(engine, old))
            result->due_ms = entry_due_wall_ms(old, now.skew_ms);
    }
    if (life.step == LIFE_STAYS) {
        if (__builtin_expect(push->batch != NULL, 0) && old && old->state != JOB_FINISHED &&
            life.status == QUEUE_EXISTED && batch_is_other(engine, push->batch, old, now))
            result->status = QUEUE_CONFLICT;
        return;
    }
    if (__builtin_expect(topic->checks_place, 0) && life.step == LIFE_CREATED && !itself &&
        !engine_topic_has_place(engine, topic, key)) {
        result->status = QUEUE_ELSEWHERE;
        return;
    }
    if (__builtin_expect(topic->flow != NULL, 0) && life.step == LIFE_CREATED && !itself &&
        flow_group_is_full(engine, topic, push->group)) {
        result->status = QUEUE_GROUP_FULL;
        return;
    }
    has_batch = has_batch || (old && old->extra && extra_is_batched(entry_extra(engine, old)));
    batched.own = batched.member_of = 0;
    if (__builtin_expect(has_batch, 0) &&
        !push_batched(engine, push, key, old ? id : 0, itself, life.step == LIFE_NEXT, now,
                      &batched, result)) {
        if (!has_topic)
            engine_topic_unmake(engine, topic);
        return;
    }
    const struct slice batches = has_batch ? batched.encoded : (struct slice){0};
    int32_t priority = push->priority;
    if (priority == QUEUE_PRIORITY_UNSET)
        priority = topic->settings.has_priority ? topic->settings.priority : JOB_PRIORITY;
    if (__builtin_expect(life.step == LIFE_NEXT, 0)) {
        push_next(engine, id,
                  (struct job){.topic = push->topic,
                               .id = push->id,
                               .group = push->group,
                               .content_type = push->content_type,
                               .meta = push->meta,
                               .body = push->body,
                               .state = JOB_DELAYED,
                               .due_is_wall = is_wall,
                               .priority = (uint16_t)priority,
                               .due_ms = due_ms,
                               .first_due_ms = due_ms,
                               .has_keep = push->has_keep_finished,
                               .keep_ms = push->keep_finished_ms,
                               .policy = push->policy,
                               .batch = batches},
                  life, now, result);
        if (batched.member_of) /* the successor refers to it */
            batch_unlink(engine, batched.member_of);
        return;
    }
    struct own_policy policy = {.batch = batched.member_of & 0xfffffffu};
    is_plain = is_plain && !batches.len;
    if ((!is_plain && !(extra = slab_add(&engine->extras))) ||
        (!is_plain && (!own_policy_set(engine, &policy, &push->policy) ||
                       !entry_set_group(engine, topic, &policy, push->group))) ||
        (!id && !(id = entry_new(engine, topic, key)))) {
        if (extra)
            slab_remove(&engine->extras, extra);
        if (batched.own)
            batch_push_undo(engine, &(struct batch_push){.own = batched.own});
        own_policy_drop(engine, &policy);
        if (!has_topic)
            engine_topic_unmake(engine, topic);
        result->status = QUEUE_NO_MEMORY;
        return;
    }

    struct entry *entry = entry_at(engine, id);
    uint64_t replaced = 0; /* the batch of the job that is replaced */
    if (entry->state) {
        if (__builtin_expect(entry->extra && entry_extra(engine, entry)->marks & EXTRA_OWNS, 0))
            replaced = entry->sequence;
        entry_unhang(engine, id);
        entry_drop_extra(engine, entry);
    }
    if (__builtin_expect(batched.own != 0, 0)) {
        due_ms = batch_first_due_ms(engine, batched.own);
        is_wall = false;
    }
    entry_set_due(entry, due_ms, is_wall);
    entry->priority = (uint64_t)priority & 0xffff;
    entry->sequence = ++engine->sequence & 0xffffffffffffffu;
    if (!is_plain) {
        entry->extra = extra;
        *entry_extra(engine, entry) =
            (struct extra){.policy = policy, .first_due_ms = due_ms, .attempt = push->past.attempt};
        entry_set_texts(engine, entry, (struct slice){0}, push->past.error);
        if (batched.own)
            entry_extra(engine, entry)->marks = EXTRA_OWNS | EXTRA_WAITS;
        if (push->has_keep_finished) {
            entry_extra(engine, entry)->marks |= EXTRA_KEEPS_OWN;
            topic->has_own_keeps = true;
            engine_topic_mind(engine, topic);
        }
    }
    enum job_state state = push->past.dead ? JOB_DEAD : JOB_DELAYED;

    struct record record = {.kind = RECORD_JOB,
                            .from = entry_slot(entry),
                            .origin = is_new ? RECORD_PUSHED : RECORD_PUSHED_REPLACING,
                            .job = {.topic = push->topic,
                                    .id = push->id,
                                    .group = push->group,
                                    .content_type = push->content_type,
                                    .meta = push->meta,
                                    .body = push->body,
                                    .error = push->past.error,
                                    .state = state,
                                    .attempt = push->past.attempt,
                                    .due_is_wall = is_wall,
                                    .priority = (uint16_t)priority,
                                    .due_ms = due_ms,
                                    .first_due_ms = due_ms,
                                    .has_keep = push->has_keep_finished,
                                    .keep_ms = push->keep_finished_ms,
                                    .sequence = entry->sequence,
                                    .policy = push->policy,
                                    .batch = batches}};
    struct record_place place = engine->sink.append(engine->sink.ctx, &record);
    entry_release(engine, entry);
    entry->place = place;
    entry->state_file = 0;
    if (__builtin_expect(replaced != 0, 0))
        batch_drop(engine, replaced);
    if (is_new)
        topic->totals.pushed++;
    else
        topic->totals.replaced++;
    entry_hang(engine, id, state, now);
    if (state == JOB_DEAD && topic->settings.extension.len)
        engine->sink.died(engine->sink.ctx, topic->name);
    entry_notify(engine, id, is_new ? JOB_EVENT_PUSHED : JOB_EVENT_REPLACED, push->id,
                 (struct slice){0}, now);
    result->state = (enum job_state)entry->state;
    result->due_ms = batched.own ? 0 : entry_due_wall_ms(entry, now.skew_ms);
    if (__builtin_expect(has_batch, 0))
        result->version = batch_push_done(engine, &batched, state, now);
}

bool engine_has_batches(const struct engine *engine)
{
    return engine->batches != NULL;
}

struct slice engine_push_batches(struct engine *engine, const struct queue_push *push,
                                 struct hash128 key, struct engine_now now,
                                 char room[JOB_BATCH_BYTES_MAX])
{
    struct batch_push batched;
    const char *detail;
    uint32_t id = find_existing(engine, key, now);
    const struct entry *old = id ? entry_at(engine, id) : NULL;
    if (old && (old->state == JOB_FINISHED || batch_is_leftover(engine, old)))
        id = 0;
    if ((!push->batch && !id) ||
        batch_push_begin(engine, push, key, id, engine->sequence + 1, now, &batched, &detail))
        return (struct slice){0};
    batch_push_undo(engine, &batched);
    memcpy(room, batched.room, batched.encoded.len);
    return slice_make(room, batched.encoded.len);
}

struct hash128 engine_once_key(const struct engine *engine, struct slice topic, struct slice once)
{
    char room[QUEUE_ONCE_ID_BYTES_MAX];
    return hash_pair(topic, queue_once_id(once, room), engine->hash_seed);
}

/* Pushes a job unless its `once` was used before. The entry of the `once` is made first, because it must not fail
 * after the push; the topic may be made by the push. */
static __attribute__((noinline)) void push_once(struct engine *engine,
                                                const struct queue_push *push, struct hash128 key,
                                                struct engine_now now, struct queue_result *result)
{
    struct hash128 once_key = engine_once_key(engine, push->topic, push->once);
    int64_t due_ms;
    bool is_wall;
    if (!when_to_due(&push->when, now, &due_ms, &is_wall)) {
        result->status = QUEUE_BAD_OPTION;
        result->detail = "at";
        return;
    }
    if (find_existing(engine, once_key, now)) {
        result->status = life_push(JOB_FINISHED, push->on_conflict, false, false).status;
        result->state = JOB_FINISHED;
        return;
    }
    uint32_t id = entry_new(engine, NULL, once_key);
    if (!id) {
        result->status = QUEUE_NO_MEMORY;
        return;
    }
    push_stored(engine, push, key, NULL, now, result);
    if (result->status != QUEUE_CREATED && result->status != QUEUE_REPLACED) {
        entry_discard(engine, id);
        return;
    }
    entry_at(engine, id)->topic = engine_topic_find(engine, push->topic)->id;
    entry_remember(engine, id, push->once_for_ms ? push->once_for_ms : QUEUE_ONCE_MS, now);
}

void engine_push_key(struct engine *engine, const struct queue_push *push, struct hash128 key,
                     struct engine_now now, struct queue_result *result)
{
    if (__builtin_expect(push->once.len != 0, 0))
        push_once(engine, push, key, now, result);
    else
        push_stored(engine, push, key, NULL, now, result);
}

/* ---- change ---- */

/* Changes the due of a waiting job and sets the result. */
static void reschedule(struct engine *engine, uint32_t id, const struct queue_change *change,
                       struct engine_now now, struct queue_result *result)
{
    struct entry *entry = entry_at(engine, id);
    int64_t due_ms;
    bool is_wall;
    struct queue_when when = change->when;
    if (change->verb == QUEUE_RUN)
        when = (struct queue_when){.due = QUEUE_DUE_NOW};
    if (!when_to_due(&when, now, &due_ms, &is_wall)) {
        result->status = QUEUE_BAD_OPTION;
        result->detail = "at";
        return;
    }
    entry_unhang(engine, id);
    if (when.due != QUEUE_DUE_UNCHANGED) {
        entry_set_due(entry, due_ms, is_wall);
        entry_set_first_due(engine, entry, due_ms);
    }
    if (change->verb == QUEUE_RESCHEDULE && change->priority != QUEUE_PRIORITY_UNSET)
        entry->priority = (uint64_t)change->priority & 0xffff;
    entry_hang(engine, id, JOB_DELAYED, now);
    entry_record(engine, id);
    entry_notify(engine, id, change->verb == QUEUE_RUN ? JOB_EVENT_RUN : JOB_EVENT_RESCHEDULED,
                 change->id, (struct slice){0}, now);
    result->status = QUEUE_OK;
    result->state = (enum job_state)entry->state;
    result->due_ms = entry_due_wall_ms(entry, now.skew_ms);
}

/* Requests the cancel of a leased job: the holder receives the request with the next extend, and the end of the
 * lease cancels the job. */
static void request_cancel(struct engine *engine, uint32_t id, bool drops_next)
{
    struct extra *extra = entry_extra(engine, entry_at(engine, id));
    if (extra->cancel_requested && !drops_next)
        return;
    extra->cancel_requested = true;
    entry_record(engine, id);
}

/* Changes a job that waits for its members. Returns false if the change is as of any other job. */
static __attribute__((noinline)) bool change_waiting(struct engine *engine, uint32_t id,
                                                     const struct queue_change *change,
                                                     struct engine_now now,
                                                     struct queue_result *result)
{
    struct entry *entry = entry_at(engine, id);
    bool waits = entry_extra(engine, entry)->marks & EXTRA_WAITS;
    uint32_t batch = batch_of_waiting(engine, entry);
    result->due_ms = 0;
    if (change->verb == QUEUE_CLOSE) {
        result->status = batch ? batch_close(engine, id, now) : QUEUE_NOT_FOUND;
    } else if (!waits || entry->state == JOB_DEAD || change->only_dead || change->lease.len) {
        return false;
    } else if (change->verb == QUEUE_CANCEL) {
        if (change->members)
            batch_stop(engine, batch);
        return false;
    } else if (change->verb == QUEUE_RUN) {
        batch_run(engine, id, now);
        result->status = QUEUE_OK;
    } else {
        if (change->priority != QUEUE_PRIORITY_UNSET) {
            entry->priority = (uint64_t)change->priority & 0xffff;
            entry_record(engine, id);
        }
        batch_reschedule(engine, id, &change->when, now);
        result->status = QUEUE_OK;
    }
    result->state = (enum job_state)entry->state;
    if (result->status == QUEUE_OK && !entry_waits_for_members(engine, entry))
        result->due_ms = entry_due_wall_ms(entry, now.skew_ms);
    return true;
}

void engine_change(struct engine *engine, const struct queue_change *change, struct engine_now now,
                   struct queue_result *result)
{
    uint32_t id =
        engine_index_find(engine, hash_pair(change->topic, change->id, engine->hash_seed));
    if (id && entry_at(engine, id)->extra &&
        __builtin_expect(extra_is_batched(entry_extra(engine, entry_at(engine, id))), 0)) {
        if (batch_is_leftover(engine, entry_at(engine, id)))
            id = 0;
        else if (entry_extra(engine, entry_at(engine, id))->marks & EXTRA_OWNS &&
                 change_waiting(engine, id, change, now, result))
            return;
    }
    if (change->verb == QUEUE_CLOSE) {
        result->status = QUEUE_NOT_FOUND;
        return;
    }
    const struct entry *entry = id ? entry_at(engine, id) : NULL;
    struct extra *extra = id ? entry_extra(engine, entry) : NULL;
    struct life life = life_change(change, entry ? (enum job_state)entry->state : 0,
                                   extra ? extra->delivery : 0, change->delivery);
    bool drops_next =
        extra && extra->successor &&
        life_drops_next(change, (enum job_state)entry->state, extra->delivery, change->delivery);
    if (drops_next) {
        entry_drop_next(engine, extra);
        extra->next = NEXT_DROPPED;
    }
    result->status = life.status;
    if (life.status == QUEUE_NOT_FOUND)
        return;
    result->state = (enum job_state)entry->state;
    result->due_ms = entry_due_wall_ms(entry, now.skew_ms);
    if (life.step == LIFE_REQUESTED) {
        request_cancel(engine, id, drops_next);
    } else if (drops_next) {
        entry_record(engine, id);
    } else if (life.step == LIFE_CANCELLED) {
        entry_unhang(engine, id);
        entry_notify(engine, id, JOB_EVENT_CANCELLED, change->id, (struct slice){0}, now);
        entry_finish(engine, id, RECORD_CANCELLED, now);
    } else if (life.step == LIFE_MOVED) {
        reschedule(engine, id, change, now, result);
    }
}

void engine_redrive_entry(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    uint32_t batch = entry->extra ? entry_extra(engine, entry)->policy.batch : 0;
    if (__builtin_expect(entry_waits_for_members(engine, entry), 0)) {
        entry_set_attempt(engine, entry, 0);
        entry_topic(engine, entry)->totals.redriven++;
        batch_redriven(engine, id, now);
        if (batch)
            batch_member_changed(engine, batch, BATCH_DEAD, BATCH_UNFINISHED, now);
        return;
    }
    if (__builtin_expect(batch && batch_at(engine, batch)->rules.is_stopped, 0))
        entry_extra(engine, entry)->delivery = ++engine->sequence; /* it is not a leftover */
    entry_unhang(engine, id);
    entry_set_attempt(engine, entry, 0);
    entry_set_due(entry, now.inner_ms, false);
    entry_set_first_due(engine, entry, now.inner_ms);
    entry_topic(engine, entry)->totals.redriven++;
    entry_hang(engine, id, JOB_READY, now);
    entry_record(engine, id);
    if (__builtin_expect(batch != 0, 0))
        batch_member_changed(engine, batch, BATCH_DEAD, BATCH_UNFINISHED, now);
}

enum queue_status engine_redrive(struct engine *engine, struct slice topic, struct slice id_text,
                                 struct engine_now now)
{
    uint32_t id = engine_index_find(engine, hash_pair(topic, id_text, engine->hash_seed));
    if (!id || entry_at(engine, id)->state != JOB_DEAD)
        return QUEUE_NOT_FOUND;
    engine_redrive_entry(engine, id, now);
    entry_notify(engine, id, JOB_EVENT_REDRIVEN, id_text, (struct slice){0}, now);
    return QUEUE_OK;
}

/* ---- leases and their answers ---- */

/* Reserves memory for a lease. False: out of memory, and nothing was changed. */
static inline struct extra *lease_reserve(struct engine *engine, struct entry *entry,
                                          struct slice consumer)
{
    struct extra *extra = entry_need_extra(engine, entry);
    return extra && entry_set_consumer(engine, entry, consumer) ? extra : NULL;
}

/* Begins a lease of an unlinked job, with memory from lease_reserve. */
static inline void lease_begin(struct engine *engine, uint32_t id, struct extra *extra,
                               int64_t lease_ms, struct engine_now now, struct engine_view *out)
{
    struct entry *entry = entry_at(engine, id);
    extra->attempt += extra->attempt < UINT32_MAX;
    extra->cancel_requested = false;
    extra->delivery = ++engine->sequence;
    extra->lease_ms = (uint32_t)(lease_ms ? lease_ms : entry_lease_ms(engine, entry));
    extra->taken_ms = now.inner_ms;
    extra->lease_until_ms = now.inner_ms + 1 + extra->lease_ms;
    entry_hang(engine, id, JOB_LEASED, now);
    entry_record(engine, id);
    entry_topic(engine, entry)->totals.delivered++;
    entry_view(engine, id, now, out);
}

/* Works as engine_take, for a topic with limits or groups. */
static __attribute__((noinline)) size_t take_by_flow(struct engine *engine, struct topic *topic,
                                                     uint32_t max, size_t bytes_max,
                                                     int64_t lease_ms, struct slice consumer,
                                                     struct engine_now now, struct engine_view *out)
{
    const struct ready_item *first;
    size_t taken = 0, bytes = 0;
    while (taken < max && (first = flow_first(engine, topic, now))) {
        uint32_t id = first->id;
        struct entry *entry = entry_at(engine, id);
        bytes += entry->place.bytes;
        if (taken && bytes > bytes_max)
            break;
        if (__builtin_expect(batch_is_leftover(engine, entry), 0)) {
            batch_remove_leftover(engine, id, now);
            max--;
            continue;
        }
        struct extra *extra = lease_reserve(engine, entry, consumer);
        if (!extra)
            break;
        engine->flow_is_busy = true;
        entry_unhang(engine, id);
        lease_begin(engine, id, extra, lease_ms, now, &out[taken++]);
        flow_delivered(engine, topic, entry_group(engine, entry), now);
        engine->flow_is_busy = false;
        flow_settle(engine, topic, entry_group(engine, entry));
    }
    return taken;
}

size_t engine_take(struct engine *engine, struct slice name, uint32_t max, size_t bytes_max,
                   int64_t lease_ms, struct slice consumer, struct engine_now now,
                   struct engine_view *out)
{
    struct topic *topic = engine_topic_find(engine, name);
    size_t taken = 0, bytes = 0;
    if (!topic || topic->paused)
        return 0;
    if (__builtin_expect(topic->flow != NULL, 0))
        return take_by_flow(engine, topic, max, bytes_max, lease_ms, consumer, now, out);
    while (taken < max && topic->ready.count) {
        uint32_t id = topic->ready.items[0].id;
        struct entry *entry = entry_at(engine, id);
        bytes += entry->place.bytes;
        if (taken && bytes > bytes_max)
            break;
        struct extra *extra = lease_reserve(engine, entry, consumer);
        if (!extra)
            break;
        if (__builtin_expect(extra->policy.batch != 0, 0) && batch_is_leftover(engine, entry)) {
            batch_remove_leftover(engine, id, now);
            max--;
            continue;
        }
        entry_unhang(engine, id);
        lease_begin(engine, id, extra, lease_ms, now, &out[taken++]);
    }
    return taken;
}

bool engine_show_first(struct engine *engine, struct slice name, struct engine_now now,
                       struct engine_view *out)
{
    const struct topic *topic = engine_topic_find(engine, name);
    const struct ready_item *first = topic ? flow_any(engine, topic) : NULL;
    if (first)
        entry_view(engine, first->id, now, out);
    return first != NULL;
}

uint32_t engine_first_ready(struct engine *engine, struct slice name, struct engine_now now,
                            struct record_place *out)
{
    struct topic *topic = engine_topic_find(engine, name);
    const struct ready_item *first = topic ? flow_first(engine, topic, now) : NULL;
    if (first && entry_at(engine, first->id)->extra &&
        batch_is_leftover(engine, entry_at(engine, first->id))) {
        batch_remove_leftover(engine, first->id, now);
        return engine_first_ready(engine, name, now, out);
    }
    if (!first)
        return 0;
    const struct entry *entry = entry_at(engine, first->id);
    engine_index_prefetch(engine, entry->key.low);
    *out = entry->place;
    return first->id;
}

void engine_pop(struct engine *engine, uint32_t ready, struct engine_now now,
                struct engine_view *out)
{
    struct topic *topic = entry_topic(engine, entry_at(engine, ready));
    assert(!topic->paused && entry_at(engine, ready)->state == JOB_READY);
    entry_unhang(engine, ready);
    if (__builtin_expect(topic->flow != NULL, 0)) {
        flow_delivered(engine, topic, entry_group(engine, entry_at(engine, ready)), now);
        flow_settle(engine, topic, entry_group(engine, entry_at(engine, ready)));
    }
    entry_view(engine, ready, now, out);
    out->state = JOB_FINISHED;
    out->attempt++;
    out->delivery = ++engine->sequence;
    topic->totals.delivered++;
    if (__builtin_expect(engine->event_kinds != 0, 0))
        entry_notify_event(engine, ready,
                           &(struct job_event){.kind = JOB_EVENT_ACKED, .attempt = 1}, now);
    if (__builtin_expect(topic->minds_ends, 0))
        kept_finish(engine, ready, RECORD_ACKED, NULL, true, now);
    else
        entry_finish_plainly(engine, ready, RECORD_ACKED, now);
}

/* Returns the topic whose next job comes first, and that job; NULL: no job can be taken. */
static const struct topic *best_topic(struct engine *engine, struct topic *const *topics,
                                      size_t count, struct engine_now now, uint32_t *id)
{
    const struct topic *best = NULL;
    const struct ready_item *best_item = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct ready_item *item = flow_first(engine, topics[i], now);
        if (item && (!best || ready_comes_before(item, best_item))) {
            best = topics[i];
            best_item = item;
        }
    }
    *id = best ? best_item->id : 0;
    return best;
}

size_t engine_take_best(struct engine *engine, const struct queue_take *take, size_t bytes_max,
                        struct engine_now now, struct engine_view *out, struct queue_rank *next,
                        bool *has_next)
{
    struct topic *topics[QUEUE_TAKE_TOPICS_MAX];
    const struct topic *best;
    size_t count = 0, taken = 0, bytes = 0;
    uint32_t id;
    for (size_t i = 0; i < take->topic_count; i++) {
        struct topic *topic = engine_topic_find(engine, take->topics[i]);
        if (topic && !topic->paused)
            topics[count++] = topic;
    }
    while ((best = best_topic(engine, topics, count, now, &id)) && taken < take->max) {
        struct entry *entry = entry_at(engine, id);
        bytes += entry->place.bytes;
        bool is_beyond = take->is_bounded && entry->priority > take->priority_max;
        if (is_beyond || (taken && bytes > bytes_max) ||
            !engine_take(engine, best->name, 1, SIZE_MAX, take->lease_ms, take->consumer, now,
                         &out[taken]))
            break;
        taken++;
    }
    *has_next = best;
    if (best) {
        const struct entry *entry = entry_at(engine, id);
        *next = (struct queue_rank){.priority = (uint16_t)entry->priority,
                                    .due_ms = entry_due_wall_ms(entry, now.skew_ms),
                                    .sequence = entry->sequence};
    }
    return taken;
}

enum queue_status engine_take_job(struct engine *engine, struct slice topic, struct slice id_text,
                                  int64_t lease_ms, struct slice consumer, struct engine_now now,
                                  struct engine_view *out)
{
    uint32_t id = engine_index_find(engine, hash_pair(topic, id_text, engine->hash_seed));
    struct entry *entry = id ? entry_at(engine, id) : NULL;
    enum batch_outcome before = entry ? life_outcome((enum job_state)entry->state) : 0;
    if (entry && entry->extra && entry_is_kept_back(engine, entry)) {
        if (!entry_waits_for_members(engine, entry))
            return QUEUE_NOT_FOUND;
        batch_run(engine, id, now);
    }
    if (entry && entry->state == JOB_DEAD && entry->extra &&
        batch_is_stopped(engine, entry_extra(engine, entry)->policy.batch))
        before = BATCH_UNFINISHED; /* an ordinary job */
    struct life life = life_pick(entry ? (enum job_state)entry->state : 0);
    if (life.step == LIFE_STAYS)
        return life.status;
    struct extra *extra = lease_reserve(engine, entry, consumer);
    if (!extra)
        return QUEUE_NO_MEMORY;
    entry_unhang(engine, id);
    if (life.step == LIFE_LEASED_NOW) {
        entry_set_due(entry, now.inner_ms, false);
        entry_set_first_due(engine, entry, now.inner_ms);
    }
    lease_begin(engine, id, extra, lease_ms, now, out);
    if (__builtin_expect(extra->policy.batch && before == BATCH_DEAD, 0))
        batch_member_changed(engine, extra->policy.batch, before, BATCH_UNFINISHED, now);
    if (__builtin_expect(entry_topic(engine, entry)->flow != NULL, 0))
        flow_settle(engine, entry_topic(engine, entry), entry_group(engine, entry));
    return QUEUE_OK;
}

/* Returns a job that was not tried: the attempt does not count. */
static void lease_give_back(struct engine *engine, uint32_t id, int64_t delay_ms,
                            struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    entry_unhang(engine, id);
    entry_extra(engine, entry)->attempt--;
    if (delay_ms > 0)
        entry_set_delay(engine, entry, delay_ms, now);
    entry_hang(engine, id, JOB_READY, now);
    entry_record(engine, id);
    entry_notify(engine, id, JOB_EVENT_RETURNED, (struct slice){0}, (struct slice){0}, now);
}

static void lease_extend(struct engine *engine, uint32_t id, const struct queue_answer *answer,
                         struct engine_now now, struct queue_result *result)
{
    struct extra *extra = entry_extra(engine, entry_at(engine, id));
    int64_t lease_ms = answer->lease_ms;
    bool progresses = answer->progress.len;
    if (progresses && !entry_set_progress(engine, entry_at(engine, id), answer->progress)) {
        result->status = QUEUE_NO_MEMORY;
        return;
    }
    if (!lease_ms)
        lease_ms = extra->lease_ms;
    if (!lease_ms) /* taken before a restart */
        lease_ms = entry_lease_ms(engine, entry_at(engine, id));
    extra->lease_until_ms = now.inner_ms + 1 + lease_ms;
    lease_hang_again(engine, id, now);
    entry_record(engine, id);
    entry_notify(engine, id, progresses ? JOB_EVENT_PROGRESS : JOB_EVENT_EXTENDED,
                 (struct slice){0}, answer->progress, now);
    result->lease_until_ms = entry_lease_end_ms(engine, extra) + now.skew_ms;
    result->cancel_requested = extra_cancel_requested(engine, extra);
}

/* Returns the entry of a lease; 0: it has ended. The wheel may not have come round yet: the end of the lease counts, not
 * when it was noticed. */
static uint32_t find_leased(const struct engine *engine, const struct engine_lease *lease,
                            struct engine_now now)
{
    uint32_t id = engine_index_find_lease(engine, lease);
    bool is_over = !id || entry_lease_end_ms(engine, entry_extra(engine, entry_at(engine, id))) <=
                              now.inner_ms;
    return is_over ? 0 : id;
}

struct record_place engine_leased(const struct engine *engine, const struct engine_lease *lease,
                                  struct engine_now now, uint16_t *priority, bool *is_next)
{
    uint32_t id = find_leased(engine, lease, now);
    if (!id)
        return (struct record_place){0};
    *priority = (uint16_t)entry_at(engine, id)->priority;
    *is_next = entry_extra(engine, entry_at(engine, id))->next == NEXT_STARTED;
    return entry_at(engine, id)->place;
}

/* The two records are in one batch of the log, so both apply or neither. */
void engine_again(struct engine *engine, const struct engine_lease *lease,
                  const struct queue_push *push, struct engine_now now, struct queue_result *result)
{
    const struct queue_answer answer = {.verb = QUEUE_AGAIN};
    int64_t due_ms;
    bool is_wall;
    uint32_t id = find_leased(engine, lease, now);
    if (!id) {
        result->status = QUEUE_LEASE_ENDED;
        return;
    }
    if (!when_to_due(&push->when, now, &due_ms, &is_wall)) {
        result->status = QUEUE_BAD_OPTION;
        result->detail = "at";
        return;
    }
    struct batch_push itself = {0};
    struct extra *extra = entry_extra(engine, entry_at(engine, id));
    struct life life = life_answer(&answer, extra_cancel_requested(engine, extra));
    if (__builtin_expect(extra->policy.batch != 0, 0) && life.step == LIFE_AGAIN &&
        !batch_again(engine, id, &itself)) {
        result->status = QUEUE_UNAVAILABLE;
        return;
    }
    result->status = life.status;
    entry_unhang(engine, id);
    if (life.step == LIFE_CANCELLED) {
        cancel_requested(engine, id, now);
        return;
    }
    assert(life.step == LIFE_AGAIN);
    entry_notify(engine, id, JOB_EVENT_ACKED, (struct slice){0}, (struct slice){0}, now);
    if (start_next(engine, id, life.step, answer.verb, now)) {
        const struct entry *next = entry_at(engine, id);
        result->status = life_next_status(life);
        result->state = (enum job_state)next->state;
        result->due_ms = entry_due_wall_ms(next, now.skew_ms);
        return;
    }
    extra->policy.batch = 0; /* its reference is that of `itself`: the member has not ended */
    entry_finish_plainly(engine, id, RECORD_ACKED, now);
    push_stored(engine, push, hash_pair(push->topic, push->id, engine->hash_seed), &itself, now,
                result);
    if (__builtin_expect(itself.member_of && result->status != QUEUE_CREATED, 0)) {
        batch_member_changed(engine, itself.member_of, BATCH_UNFINISHED, BATCH_ACKED, now);
        batch_unlink(engine, itself.member_of);
    }
}

/* Ends the lease of a job with a successor, by an answer other than `again`. */
static __attribute__((noinline)) void end_with_next(struct engine *engine, uint32_t id,
                                                    const struct queue_answer *answer,
                                                    enum life_step step, struct engine_now now)
{
    enum job_event_kind kind = step == LIFE_CANCELLED  ? JOB_EVENT_CANCELLED
                               : step == LIFE_ACKED    ? JOB_EVENT_ACKED
                               : step == LIFE_RETURNED ? JOB_EVENT_RETURNED
                                                       : JOB_EVENT_NACKED;
    entry_unhang(engine, id);
    if (step == LIFE_RETURNED) /* it does not count, also for the event */
        entry_extra(engine, entry_at(engine, id))->attempt--;
    entry_notify(engine, id, kind, (struct slice){0},
                 step == LIFE_RETRIED ? answer->error : (struct slice){0}, now);
    entry_start_next(engine, id, life_next(step, answer->verb), now);
}

/* Holds the group of a job, or without a group its topic. Returns false if out of memory. */
static bool begin_hold(struct engine *engine, const struct entry *entry, int64_t hold_ms,
                       struct engine_now now, struct queue_result *result)
{
    struct topic *topic = entry_topic(engine, entry);
    uint32_t number = entry_group(engine, entry);
    if (!flow_hold(engine, topic, number, hold_ms, now))
        return false;
    if (engine->shards > 1) {
        result->topic = topic->name;
        result->group = number ? flow_group_name(engine, number) : (struct slice){.at = ""};
    }
    return true;
}

void engine_answer(struct engine *engine, const struct engine_lease *lease,
                   const struct queue_answer *answer, struct engine_now now,
                   struct queue_result *result)
{
    uint32_t id = find_leased(engine, lease, now);
    if (!id) {
        result->status = QUEUE_LEASE_ENDED;
        return;
    }
    struct entry *entry = entry_at(engine, id);
    struct life life =
        life_answer(answer, extra_cancel_requested(engine, entry_extra(engine, entry)));
    if (__builtin_expect(entry_extra(engine, entry)->successor && life.step != LIFE_EXTENDED, 0))
        drop_next_if_stopped(engine, id);
    if (__builtin_expect(answer->hold_ms > 0, 0) &&
        !begin_hold(engine, entry, answer->hold_ms, now, result)) {
        result->status = QUEUE_NO_MEMORY;
        return;
    }
    result->status = life.status;
    if (__builtin_expect(entry_extra(engine, entry)->successor && life.step != LIFE_EXTENDED, 0)) {
        end_with_next(engine, id, answer, life.step, now);
        result->state = (enum job_state)entry->state;
        result->due_ms = entry_due_wall_ms(entry, now.skew_ms);
        return;
    }
    switch (life.step) {
    case LIFE_CANCELLED:
        entry_unhang(engine, id);
        cancel_requested(engine, id, now);
        return;
    case LIFE_ACKED:
        entry_unhang(engine, id);
        entry_notify(engine, id, JOB_EVENT_ACKED, (struct slice){0}, (struct slice){0}, now);
        entry_finish_acked(engine, id, answer, now);
        result->state = JOB_FINISHED;
        return;
    case LIFE_EXTENDED:
        lease_extend(engine, id, answer, now, result);
        break;
    case LIFE_RETURNED:
        lease_give_back(engine, id, answer->delay_ms, now);
        break;
    default:
        assert(life.step == LIFE_RETRIED);
        entry_topic(engine, entry)->totals.nacked++;
        entry_unhang(engine, id);
        if (answer->has_priority)
            entry->priority = answer->priority;
        engine->answer = answer->result.len ? answer : NULL;
        entry_fail(engine, id, answer->final ? JOB_OUTCOME_REFUSED : JOB_OUTCOME_FAILED,
                   answer->delay_ms, answer->error, now);
        engine->answer = NULL;
    }
    result->state = (enum job_state)entry->state;
    result->due_ms = entry_due_wall_ms(entry, now.skew_ms);
}

/* ---- look-up ---- */

void engine_look(struct engine *engine, const struct queue_find *name, struct engine_now now,
                 struct queue_result *result)
{
    uint32_t id = engine_index_find(engine, hash_pair(name->topic, name->id, engine->hash_seed));
    const struct entry *entry = id ? entry_at(engine, id) : NULL;
    if (!entry || entry->state == JOB_FINISHED || batch_is_leftover(engine, entry)) {
        result->status = QUEUE_NOT_FOUND;
        return;
    }
    result->status = QUEUE_OK;
    result->state = (enum job_state)entry->state;
    result->due_ms =
        entry_waits_for_members(engine, entry) ? 0 : entry_due_wall_ms(entry, now.skew_ms);
}

bool engine_find(struct engine *engine, struct slice topic, struct slice id_text,
                 struct engine_now now, struct engine_view *out)
{
    uint32_t id = engine_index_find(engine, hash_pair(topic, id_text, engine->hash_seed));
    if (!id || entry_at(engine, id)->state == JOB_FINISHED ||
        batch_is_leftover(engine, entry_at(engine, id)))
        return false;
    entry_view(engine, id, now, out);
    return true;
}

void engine_show(const struct engine_view *view, struct job *job)
{
    if (view->next_started)
        record_next_start(job);
    job->next = (struct slice){0};
    job->next_due_ms = view->next_due_ms;
    job->state = view->state;
    job->priority = view->priority;
    job->attempt = view->attempt;
    job->due_ms = view->waits ? 0 : view->due_ms;
    job->lease_until_ms = view->lease_until_ms;
    job->delivery = view->delivery;
    job->sequence = view->sequence;
    job->history = slice_make(view->text, view->history_bytes);
    job->error =
        slice_make(view->error_bytes ? view->text + view->history_bytes : NULL, view->error_bytes);
    job->consumer = slice_make(
        view->consumer_bytes ? view->text + view->history_bytes + view->error_bytes : NULL,
        view->consumer_bytes);
    job->cancel_requested = view->cancel_requested;
    job->progress = slice_make(view->progress_bytes ? view->text + view->history_bytes +
                                                          view->error_bytes + view->consumer_bytes
                                                    : NULL,
                               view->progress_bytes);
}

void engine_stats(const struct engine *engine, struct engine_stats *out)
{
    *out = (struct engine_stats){.topics = engine->topic_count};
    for (uint32_t id = 1; id <= engine->topic_top; id++) {
        const struct topic *topic = engine->topics[id];
        if (!topic)
            continue;
        uint64_t remembered;
        struct queue_counts counts = engine_topic_counts(topic, &remembered);
        out->counts.delayed += counts.delayed;
        out->counts.retrying += counts.retrying;
        out->counts.ready += counts.ready;
        out->counts.leased += counts.leased;
        out->counts.dead += counts.dead;
        out->counts.dead_bytes += counts.dead_bytes;
        out->counts.finished += counts.finished;
        out->remembered += remembered;
    }
}

uint64_t engine_dropped(const struct engine *engine, enum queue_drop reason)
{
    return engine->dropped[reason];
}

uint64_t engine_spare_bytes(const struct engine *engine)
{
    return slab_spare_bytes(&engine->entries) + slab_spare_bytes(&engine->extras);
}
