#include "memory/memory.h"

#include "base/clock.h"
#include "base/random.h"
#include "engine/walk.h"
#include "memory/blob.h"
#include "queue/life.h"

#include <assert.h>
#include <stdlib.h>

enum { ADVANCE_AT_ONCE = 512, WALK_STEPS = 1 << 20 };

/* Approximate cost of a job beside its blob: its entry and its place in the index. */
enum { ENTRY_BYTES = 104 };

struct memory {
    struct memory_options options;
    struct engine *engine;
    struct mac_key lease_key;
    struct blob *pushed; /* the current push, until its record is appended */
    struct blob *read;   /* the job that the engine read last */
    struct blob *popped; /* stays held by the outgoing job when it is released */
    /* Room for the next kept job, allocated before the call that ends it (NULL: none). */
    void *kept_room;
    size_t kept_room_bytes;
    struct memory_awaits *awaits;
    uint64_t bytes;    /* held by the engine */
    int64_t skew_ms;   /* last value passed to the engine */
    int64_t at_ms_max; /* latest requested due time on the wall clock */
    struct engine_view views[QUEUE_TAKE_MAX];
};

/* ---- callbacks of the engine ---- */

/* Allocates room for the next kept job. Returns false if out of memory. */
static bool kept_room_reserve(struct memory *memory, size_t bytes)
{
    if (bytes <= memory->kept_room_bytes)
        return true;
    void *room = malloc(bytes);
    if (!room)
        return false;
    free(memory->kept_room);
    memory->kept_room = room;
    memory->kept_room_bytes = bytes;
    return true;
}

static bool memory_has_room(void *ctx, size_t bytes)
{
    return kept_room_reserve(ctx, bytes);
}

/* Stores a kept job in the room that was reserved for it. */
static struct blob *kept_store(struct memory *memory, const struct record_done *done)
{
    assert(memory->kept_room);
    struct blob *blob =
        blob_kept_make(memory->kept_room, memory->kept_room_bytes, done, life_end(done->reason));
    memory->kept_room = NULL;
    memory->kept_room_bytes = 0;
    return blob;
}

/* Stores a record. The blob of a job was created before, so this cannot fail. A remembered id keeps
 * its entry, and a kept job also a blob. */
static struct record_place memory_on_append(void *ctx, const struct record *record)
{
    struct memory *memory = ctx;
    if (record->kind == RECORD_DONE && record_done_until_ms(&record->done))
        memory->bytes += ENTRY_BYTES;
    if (record->kind == RECORD_DONE && record->done.keep_until_ms) {
        struct blob *kept = kept_store(memory, &record->done);
        memory->bytes += blob_bytes(kept);
        return blob_place(kept);
    }
    if (record->kind != RECORD_JOB)
        return blob_place_none();
    struct blob *blob = memory->pushed;
    assert(blob);
    memory->pushed = NULL;
    if (record->job.next.len) { /* a leased job with its successor: its blob stays */
        blob_set_next(memory->read, blob);
        blob = blob_hold(memory->read);
    }
    memory->bytes += blob_bytes(blob) + ENTRY_BYTES;
    return blob_place(blob);
}

/* Returns the blob of a job whose record is at that place. */
static struct blob *blob_of(struct record_place place, bool is_next)
{
    struct blob *blob = blob_at(place);
    return is_next ? blob_next(blob) : blob;
}

static bool memory_on_read(void *ctx, struct record_place place, bool is_next, struct job *out)
{
    struct memory *memory = ctx;
    memory->read = blob_of(place, is_next);
    blob_show(memory->read, out);
    return true;
}

static void memory_on_release(void *ctx, struct record_place place)
{
    struct memory *memory = ctx;
    struct blob *blob = blob_at(place);
    memory->bytes -= (blob ? place.bytes : 0) + ENTRY_BYTES;
    if (blob && blob != memory->popped)
        blob_release(blob);
}

static void memory_on_ended(void *ctx, const struct engine_ended *ended)
{
    struct memory *memory = ctx;
    memory_awaits_end(memory->awaits, memory->engine, ended);
}

static void memory_on_ready(void *ctx, struct slice topic)
{
    const struct memory *memory = ctx;
    if (memory->options.ready)
        memory->options.ready(memory->options.ctx, topic);
}

static void memory_on_died(void *ctx, struct slice topic)
{
    const struct memory *memory = ctx;
    if (memory->options.died)
        memory->options.died(memory->options.ctx, topic);
}

/* ---- creating, time ---- */

struct memory *memory_new(const struct memory_options *options)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->options = *options;
    random_bytes(&memory->lease_key, sizeof memory->lease_key);
    struct engine_now now = memory_now(memory);
    memory->skew_ms = now.skew_ms;
    memory->engine = engine_new(&(struct engine_options){.sink = {.append = memory_on_append,
                                                                  .read = memory_on_read,
                                                                  .release = memory_on_release,
                                                                  .ready = memory_on_ready,
                                                                  .died = memory_on_died,
                                                                  .has_room = memory_has_room,
                                                                  .ended = memory_on_ended,
                                                                  .ctx = memory},
                                                         .hash_seed = random_u64(),
                                                         .body_bytes_max = options->body_bytes_max,
                                                         .topics_max = options->topics_max,
                                                         .random_seed = random_u64(),
                                                         .now = now});
    memory->awaits = memory_awaits_new();
    if (!memory->engine || !memory->awaits) {
        engine_free(memory->engine);
        memory_awaits_free(memory->awaits);
        free(memory);
        return NULL;
    }
    engine_start(memory->engine, 1);
    return memory;
}

void memory_free(struct memory *memory)
{
    if (!memory)
        return;
    engine_free(memory->engine);
    assert(!memory->bytes && !memory->pushed);
    memory_awaits_free(memory->awaits);
    free(memory->kept_room);
    free(memory);
}

/* Returns whether the difference of the clocks has changed by more than the noise of two clocks
 * that are truncated to milliseconds. */
static bool is_step(const struct memory *memory, const struct engine_now *now)
{
    enum { SKEW_NOISE_MS = 2 };
    int64_t step_ms = now->wall_ms - now->inner_ms - memory->skew_ms;
    return step_ms > SKEW_NOISE_MS || step_ms < -SKEW_NOISE_MS;
}

/* Reads the clocks. An apparent step may be caused by a delay of the thread between two readings,
 * so both clocks are then read at one moment. */
struct engine_now memory_now(struct memory *memory)
{
    struct clock *clock = memory->options.clock;
    struct engine_now now = {.inner_ms = clock_inner_ms_of(clock),
                             .wall_ms = clock_wall_ms_of(clock),
                             .skew_ms = memory->skew_ms};
    if (is_step(memory, &now)) {
        clock_both_ms_of(clock, &now.inner_ms, &now.wall_ms);
        if (is_step(memory, &now))
            now.skew_ms = now.wall_ms - now.inner_ms;
    }
    return now;
}

void memory_advance(struct memory *memory, struct engine_now now)
{
    bool is_stepped = now.skew_ms != memory->skew_ms;
    memory->skew_ms = now.skew_ms;
    while (is_stepped || engine_next_ms(memory->engine) <= now.inner_ms) {
        is_stepped = false;
        engine_advance(memory->engine, now, ADVANCE_AT_ONCE);
    }
}

int64_t memory_next_ms(const struct memory *memory)
{
    return engine_next_ms(memory->engine);
}

/* ---- push, change, answer ---- */

/* Returns whether `more_bytes` in place of `gone_bytes` would exceed the limit. */
static bool memory_is_full(const struct memory *memory, uint64_t more_bytes, uint64_t gone_bytes)
{
    uint64_t max = memory->options.bytes_max;
    return max && memory->bytes + more_bytes > max + gone_bytes;
}

static void memory_note_at(struct memory *memory, const struct queue_when *when)
{
    if (when->due == QUEUE_DUE_AT && when->ms > memory->at_ms_max)
        memory->at_ms_max = when->ms;
}

bool memory_waits_for_wall(const struct memory *memory, struct engine_now now)
{
    return memory->at_ms_max > now.wall_ms;
}

void memory_push(struct memory *memory, const struct queue_push *push, struct engine_now now,
                 struct queue_result *result)
{
    struct hash128 key = engine_key_soon(memory->engine, push->topic, push->id);
    struct queue_push copy;
    struct queue_batch parent;
    push = lease_prove_parent(push, &memory->lease_key, 0, &copy, &parent);
    char room[JOB_BATCH_BYTES_MAX];
    struct slice batches = {0};
    if (__builtin_expect(push->batch || engine_has_batches(memory->engine), 0))
        batches = engine_push_batches(memory->engine, push, key, now, room);
    memory->pushed = blob_new(push, batches);
    if (!memory->pushed) {
        result->status = QUEUE_NO_MEMORY;
        return;
    }
    if (memory_is_full(memory, blob_bytes(memory->pushed) + ENTRY_BYTES, 0))
        result->status = QUEUE_NO_SPACE;
    else
        engine_push_key(memory->engine, push, key, now, result);
    memory_note_at(memory, &push->when);
    if (memory->pushed) /* not used: the job exists, or the push was rejected */
        blob_release(memory->pushed);
    memory->pushed = NULL;
}

void memory_change(struct memory *memory, const struct queue_change *change, struct engine_now now,
                   struct queue_result *result)
{
    struct queue_change proved = lease_prove(change, &memory->lease_key, 0);
    if (!kept_room_reserve(memory, engine_room_end(memory->engine, change->topic, change->id))) {
        result->status = QUEUE_NO_MEMORY;
        return;
    }
    engine_change(memory->engine, &proved, now, result);
    memory_note_at(memory, &change->when);
}

void memory_again(struct memory *memory, const struct engine_lease *lease,
                  const struct queue_again *again, struct engine_now now,
                  struct queue_result *result)
{
    struct job job = {0};
    bool is_next = false;
    struct record_place place = engine_leased(memory->engine, lease, now, &job.priority, &is_next);
    uint16_t priority = job.priority;
    struct blob *blob = place.bytes ? blob_of(place, is_next) : NULL;
    if (!blob) {
        result->status = QUEUE_LEASE_ENDED;
        return;
    }
    blob_show(blob, &job);
    job.priority = priority;
    struct queue_push push = life_again(&job, again);
    memory->pushed = blob_new(&push, job.batch);
    if (!memory->pushed) {
        result->status = QUEUE_NO_MEMORY;
        return;
    }
    blob_hold(blob); /* the push points into it */
    const struct queue_answer answer = {.verb = QUEUE_AGAIN, .again = again};
    if (!kept_room_reserve(memory, engine_room_answer(memory->engine, lease, &answer)))
        result->status = QUEUE_NO_MEMORY; /* a job whose cancel was requested may be kept */
    else if (memory_is_full(memory, blob_bytes(memory->pushed), blob_bytes(blob)))
        result->status = QUEUE_NO_SPACE;
    else
        engine_again(memory->engine, lease, &push, now, result);
    memory_note_at(memory, &push.when);
    blob_release(blob);
    if (memory->pushed)
        blob_release(memory->pushed);
    memory->pushed = NULL;
}

void memory_answer_lease(struct memory *memory, const struct engine_lease *lease,
                         const struct queue_answer *answer, struct engine_now now,
                         struct queue_result *result)
{
    if (answer->verb == QUEUE_AGAIN)
        memory_again(memory, lease, answer->again, now, result);
    else if (answer->verb != QUEUE_EXTEND &&
             !kept_room_reserve(memory, engine_room_answer(memory->engine, lease, answer)))
        result->status = QUEUE_NO_MEMORY;
    else
        engine_answer(memory->engine, lease, answer, now, result);
}

void memory_answer(struct memory *memory, const struct queue_answer *answer, struct engine_now now,
                   struct queue_result *result)
{
    struct engine_lease lease;
    uint32_t shard;
    if (lease_parse(answer->lease, &memory->lease_key, &lease, &shard) && shard == 0)
        memory_answer_lease(memory, &lease, answer, now, result);
    else
        result->status = QUEUE_LEASE_ENDED;
}

/* ---- handing out jobs ---- */

void memory_job_free(struct memory_job *job)
{
    if (!job)
        return;
    free(job->text);
    free(job->meta);
    blob_release(job->blob);
    free(job);
}

/* Copies the text to `*at` with a NUL byte and advances `*at`. */
static struct slice text_copy(char **at, struct slice text)
{
    char *into = *at;
    if (text.len)
        memcpy(into, text.at, text.len);
    into[text.len] = '\0';
    *at = into + text.len + 1;
    return slice_make(into, text.len);
}

struct memory_job *memory_job_copy(const struct queue_job *from)
{
    struct job *job;
    const struct job *known = &from->job;
    const struct queue_end end = from->end ? *from->end : (struct queue_end){0};
    size_t bytes = known->topic.len + known->id.len + known->content_type.len + known->meta.len +
                   known->body.len + known->error.len + known->history.len + known->consumer.len +
                   known->progress.len + known->group.len + known->batch.len + end.result.len +
                   end.result_type.len;
    enum { TEXTS = 13 };
    if (from->lease.len > LEASE_TEXT_BYTES)
        return NULL;
    struct memory_job *copy = malloc(sizeof *copy + bytes + TEXTS);
    if (!copy)
        return NULL;
    char *at = (char *)(copy + 1);
    memset(copy, 0, sizeof *copy);
    copy->shown.job = *known;
    copy->end = end;
    copy->shown.end = from->end ? &copy->end : NULL;
    if (from->waiting) {
        copy->waiting = *from->waiting;
        copy->shown.waiting = &copy->waiting;
    }
    job = &copy->shown.job;
    struct slice *const texts[TEXTS] = {
        &job->topic,    &job->id,          &job->content_type,     &job->meta,
        &job->body,     &job->error,       &job->history,          &job->consumer,
        &job->progress, &copy->end.result, &copy->end.result_type, &job->group,
        &job->batch};
    for (size_t i = 0; i < TEXTS; i++)
        *texts[i] = text_copy(&at, *texts[i]);
    if (from->lease.len)
        memcpy(copy->lease_text, from->lease.at, from->lease.len);
    copy->shown.lease = slice_make(copy->lease_text, from->lease.len);
    return copy;
}

void memory_job_lease(struct memory_job *job)
{
    lease_write(job->lease_text, &job->lease_key, &job->lease, 0);
    job->lease_text[LEASE_TEXT_BYTES] = '\0';
    job->shown.lease = slice_make(job->lease_text, LEASE_TEXT_BYTES);
}

/* Fills in a job. It takes over the view's text and one hold of the blob. */
static void job_fill(const struct memory *memory, struct memory_job *job, struct engine_view *view)
{
    job->blob = blob_of(view->place, view->next_started);
    job->lease = (struct engine_lease){.key_low = view->key.low, .delivery = view->delivery};
    job->text = view->text;
    job->lease_key = memory->lease_key;
    job->is_taken = false;
    job->shown.lease = (struct slice){0};
    job->shown.held_by = FLOW_NOT_HELD;
    job->shown.held_until_ms = 0;
    job->shown.end = NULL;
    job->shown.waiting = NULL;
    job->meta = NULL;
    if (__builtin_expect(view->state == JOB_FINISHED, 0) &&
        blob_show_kept(job->blob, &job->shown.job, &job->end)) {
        job->shown.job.due_ms = view->due_ms;
        job->shown.job.sequence = view->sequence;
        job->shown.end = &job->end;
    } else {
        blob_show(job->blob, &job->shown.job);
        engine_show(view, &job->shown.job);
        if (__builtin_expect(view->has_batch, 0)) {
            job->waiting = view->waiting;
            job->shown.waiting = &job->waiting;
        }
    }
    view->text = NULL;
}

/* Creates a job that takes over the view's text. Returns NULL if out of memory; then the view is
 * unchanged. */
static struct memory_job *job_new(const struct memory *memory, struct engine_view *view)
{
    struct memory_job *job = malloc(sizeof *job);
    if (job) {
        job_fill(memory, job, view);
        blob_hold(job->blob);
    }
    return job;
}

/* Adds the outcome of its batch to the meta of a taken job. Without memory it has none. */
static void show_batch_meta(struct memory_job *job)
{
    struct slice meta = job->shown.job.meta;
    if (!job->shown.waiting || !(job->meta = malloc(meta.len + BATCH_META_BYTES_MAX)))
        return;
    job->shown.job.meta = batch_meta_join(meta, &job->shown.waiting->counts, job->meta);
}

/* Fills in why a ready job is not delivered. */
static void show_held(const struct memory *memory, struct memory_job *job, struct engine_now now)
{
    const struct job *shown = &job->shown.job;
    if (shown->state == JOB_READY)
        job->shown.held_by =
            engine_held(memory->engine, shown->topic, shown->group, now, &job->shown.held_until_ms);
}

/* Returns a job that cannot be handed out, so that it is ready as before. */
static void give_back(struct memory *memory, struct engine_view *view, struct engine_now now)
{
    const struct engine_lease lease = {.key_low = view->key.low, .delivery = view->delivery};
    struct queue_result result = {0};
    engine_answer(memory->engine, &lease,
                  &(struct queue_answer){.verb = QUEUE_RETURN, .delay_ms = -1}, now, &result);
    assert(result.status == QUEUE_OK);
    engine_view_fini(view);
}

static bool has_ready(const struct memory *memory, const struct queue_take *take)
{
    for (size_t i = 0; i < take->topic_count; i++)
        if (engine_topic_has_ready(memory->engine, take->topics[i]))
            return true;
    return false;
}

/* Takes jobs. Reports a lack of memory for the lease if the engine hands out no job of a topic with
 * ready jobs. */
enum queue_status memory_take(struct memory *memory, const struct queue_take *take,
                              struct engine_now now, struct memory_job **out, size_t *count)
{
    size_t taken = 0, given = 0;
    struct queue_rank next;
    bool has_next;
    *count = 0;
    if (take->id.len) {
        enum queue_status status =
            engine_take_job(memory->engine, take->topics[0], take->id, take->lease_ms,
                            take->consumer, now, memory->views);
        if (status != QUEUE_OK)
            return status;
        taken = 1;
    } else if (take->by_priority) {
        taken =
            engine_take_best(memory->engine, take, SIZE_MAX, now, memory->views, &next, &has_next);
    }
    bool is_plain = !take->id.len && !take->by_priority;
    for (size_t i = 0; is_plain && i < take->topic_count && taken < take->max; i++)
        taken += engine_take(memory->engine, take->topics[i], take->max - (uint32_t)taken, SIZE_MAX,
                             take->lease_ms, take->consumer, now, memory->views + taken);
    while (given < taken && (out[given] = job_new(memory, &memory->views[given]))) {
        out[given]->is_taken = true;
        show_batch_meta(out[given++]);
    }
    for (size_t i = taken; i > given; i--)
        give_back(memory, &memory->views[i - 1], now);
    *count = given;
    return given || !(taken || has_ready(memory, take)) ? QUEUE_OK : QUEUE_NO_MEMORY;
}

/* Memory is allocated first, because a popped job cannot be returned to the queue. */
enum queue_status memory_pop(struct memory *memory, const struct queue_take *take,
                             struct engine_now now, struct memory_job **out, size_t *count)
{
    struct record_place place;
    uint32_t id;
    size_t popped = 0;
    bool is_starved = false;
    for (size_t i = 0; i < take->topic_count && !is_starved; i++)
        while (popped < take->max &&
               (id = engine_first_ready(memory->engine, take->topics[i], now, &place))) {
            struct engine_view view;
            blob_prefetch(blob_at(place));
            struct memory_job *job = malloc(sizeof *job);
            if ((is_starved =
                     !job || !kept_room_reserve(memory, engine_room_pop(memory->engine, id)))) {
                free(job);
                break;
            }
            memory->popped = blob_at(place);
            engine_pop(memory->engine, id, now, &view);
            memory->popped = NULL;
            job_fill(memory, job, &view);
            if (view.next_started) { /* the job holds only the successor in the blob of the record */
                blob_hold(job->blob);
                blob_release(blob_at(view.place));
            }
            show_batch_meta(job);
            out[popped++] = job;
        }
    *count = popped;
    return popped || !is_starved ? QUEUE_OK : QUEUE_NO_MEMORY;
}

enum queue_status memory_get(struct memory *memory, struct slice topic, struct slice id,
                             bool finished, struct engine_now now, struct memory_job **out)
{
    struct engine_view view;
    if (!engine_find(memory->engine, topic, id, now, &view) &&
        !(finished && engine_find_kept(memory->engine, topic, id, now, &view)))
        return QUEUE_NOT_FOUND;
    *out = job_new(memory, &view);
    engine_view_fini(&view);
    if (*out)
        show_held(memory, *out, now);
    return *out ? QUEUE_OK : QUEUE_NO_MEMORY;
}

bool memory_await(struct memory *memory, struct slice topic, struct slice id,
                  struct memory_wait *wait)
{
    return memory_awaits_add(memory->awaits, memory->engine, topic, id, wait);
}

void memory_await_cancel(struct memory *memory, struct slice topic, struct slice id,
                         struct memory_wait *wait)
{
    memory_awaits_remove(memory->awaits, memory->engine, topic, id, wait);
}

static struct walk walk_over(enum walk_kind kind, struct slice topic)
{
    struct walk walk = {.kind = kind, .topic_bytes = topic.len};
    memcpy(walk.topic, topic.at, topic.len);
    return walk;
}

enum queue_status memory_list(struct memory *memory, const struct queue_list *list,
                              struct engine_now now, struct memory_job **out, size_t *count,
                              char cursor_text[QUEUE_CURSOR_BYTES_MAX], struct slice *cursor)
{
    struct walk walk = walk_over(WALK_LIST, list->topic);
    struct queue_topic topic;
    walk.state = list->state;
    walk.limit = list->limit;
    walk.has_cursor = list->cursor.len > 0;
    *count = 0;
    *cursor = (struct slice){0};
    if (walk.has_cursor && !queue_cursor_parse(list->cursor, &walk.after))
        return QUEUE_BAD_CURSOR;
    queue_cursor_follow(&walk.after, now.skew_ms, list->state == JOB_FINISHED);
    if (!engine_topic_show(memory->engine, list->topic, now, &topic))
        return QUEUE_NOT_FOUND;
    if (!walk_init(&walk, memory->engine))
        return QUEUE_NO_MEMORY;
    while (!walk_step(&walk, memory->engine, now, WALK_STEPS, WALK_STEPS))
        continue;
    size_t found = walk.found.count;
    while (*count < found && (out[*count] = job_new(memory, &walk.found.at[*count]))) {
        show_held(memory, out[*count], now);
        if (!list->with_body)
            out[*count]->shown.job.body = (struct slice){0};
        ++*count;
    }
    if (*count && (walk.more || *count < found)) {
        const struct job *last = &out[*count - 1]->shown.job;
        struct queue_cursor at = {.due_ms = last->due_ms,
                                  .sequence = last->sequence,
                                  .has_skew = true,
                                  .skew_ms = now.skew_ms};
        *cursor = slice_make(cursor_text, queue_cursor_write(cursor_text, &at));
    }
    walk_fini(&walk);
    return *count || !found ? QUEUE_OK : QUEUE_NO_MEMORY;
}

/* ---- topics ---- */

/* Runs a walk to its end: purge, delete, and redrive of all jobs. */
static enum queue_status walk_all(struct memory *memory, enum walk_kind kind,
                                  const struct queue_topic_call *call, struct engine_now now,
                                  uint64_t *affected)
{
    struct walk walk = walk_over(kind, call->topic);
    walk.state = kind == WALK_PURGE ? call->state : 0;
    walk.max = call->max;
    if (!walk_init(&walk, memory->engine))
        return QUEUE_NOT_FOUND;
    while (!walk_step(&walk, memory->engine, now, WALK_STEPS, WALK_STEPS))
        continue;
    *affected = walk.affected;
    walk_fini(&walk);
    return kind == WALK_DELETE ? engine_topic_remove(memory->engine, call->topic) : QUEUE_OK;
}

static enum queue_status topic_pause(struct memory *memory, const struct queue_topic_call *call,
                                     struct engine_now now)
{
    int64_t until_ms = call->pause_ms ? now.inner_ms + call->pause_ms + 1 : 0;
    if (call->pause_until_ms)
        until_ms = call->pause_until_ms > now.skew_ms ? call->pause_until_ms - now.skew_ms : 1;
    return engine_topic_pause(memory->engine, call->topic, until_ms);
}

enum queue_status memory_topic(struct memory *memory, const struct queue_topic_call *call,
                               struct engine_now now, struct queue_topic *topic, uint64_t *affected)
{
    enum queue_status status = QUEUE_OK;
    *affected = 0;
    if (call->makes && call->verb != QUEUE_TOPIC_MARK &&
        !engine_topic_show(memory->engine, call->topic, now, topic)) {
        status = engine_topic_put(memory->engine, call->topic, &(struct topic_settings){0});
        if (status != QUEUE_CREATED)
            return status;
    }
    switch (call->verb) {
    case QUEUE_TOPIC_GET:
        status = QUEUE_OK;
        break;
    case QUEUE_TOPIC_PUT:
        status = engine_topic_put(memory->engine, call->topic, &call->settings);
        break;
    case QUEUE_TOPIC_PAUSE:
        status = topic_pause(memory, call, now);
        break;
    case QUEUE_TOPIC_RESUME:
        status = engine_topic_resume(memory->engine, call->topic);
        break;
    case QUEUE_TOPIC_MARK:
        status = engine_topic_mark(memory->engine, call->topic, call->makes);
        break;
    case QUEUE_TOPIC_PURGE:
        return walk_all(memory, WALK_PURGE, call, now, affected);
    case QUEUE_TOPIC_DELETE:
        return walk_all(memory, WALK_DELETE, call, now, affected);
    case QUEUE_TOPIC_REDRIVE:
        if (!call->id.len)
            return walk_all(memory, WALK_REDRIVE, call, now, affected);
        status = engine_redrive(memory->engine, call->topic, call->id, now);
        *affected = status == QUEUE_OK;
        return status;
    }
    if ((status == QUEUE_OK || status == QUEUE_CREATED) &&
        !engine_topic_show(memory->engine, call->topic, now, topic))
        return QUEUE_NOT_FOUND;
    return status;
}

bool memory_topics(struct memory *memory, struct queue_topics_page page, struct engine_now now,
                   struct queue_topic **out, size_t *count)
{
    return engine_topics_page(memory->engine, page.after, page.limit, now, out, count);
}

enum queue_status memory_forecast(struct memory *memory, const struct queue_forecast_call *call,
                                  struct engine_now now, struct queue_forecast *out)
{
    struct engine_forecast *found = malloc(sizeof *found);
    enum queue_status status = found ? QUEUE_NOT_FOUND : QUEUE_NO_MEMORY;
    if (!found)
        return status;
    timeline_init(&found->timeline, call->from_ms);
    found->cold = found->overdue = 0;
    found->estimated = false;
    if (engine_forecast(memory->engine, call->topic, now, found)) {
        *out = (struct queue_forecast){0};
        timeline_show(&found->timeline, out);
        out->from_ms = call->from_ms;
        out->overdue = found->overdue;
        out->estimated = found->estimated;
        status = QUEUE_OK;
    }
    free(found);
    return status;
}

/* ---- groups ---- */

enum queue_status memory_group(struct memory *memory, const struct queue_group_call *call,
                               struct engine_now now, struct queue_group *out)
{
    struct group_settings settings = call->settings;
    enum queue_status status = QUEUE_OK;
    if (settings.paused_until_ms)
        settings.paused_until_ms =
            settings.paused_until_ms > now.skew_ms ? settings.paused_until_ms - now.skew_ms : 1;
    if (call->verb == QUEUE_GROUP_PUT)
        status = engine_group_put(memory->engine, call->topic, call->group, &settings);
    else if (call->verb == QUEUE_GROUP_DELETE)
        status = engine_group_delete(memory->engine, call->topic, call->group);
    if (status != QUEUE_OK)
        return status;
    return engine_group_show(memory->engine, call->topic, call->group, now, out) ? QUEUE_OK
                                                                                 : QUEUE_NOT_FOUND;
}

bool memory_groups(struct memory *memory, struct slice topic, struct engine_now now,
                   struct groups_page *page)
{
    struct queue_group group;
    struct queue_topic shown;
    uint32_t at = 0;
    if (!engine_topic_show(memory->engine, topic, now, &shown))
        return false;
    while (engine_group_next(memory->engine, topic, &at, now, &group))
        groups_page_add(page, &group);
    return true;
}

/* ---- queries ---- */

void memory_look(const struct memory *memory, const struct queue_find *name, struct engine_now now,
                 struct queue_result *result)
{
    engine_look(memory->engine, name, now, result);
}

bool memory_topic_has_ready(struct memory *memory, struct slice topic)
{
    return engine_topic_has_ready(memory->engine, topic);
}

uint64_t memory_dropped(const struct memory *memory, enum queue_drop reason)
{
    return engine_dropped(memory->engine, reason);
}

uint64_t memory_spare_bytes(const struct memory *memory)
{
    return engine_spare_bytes(memory->engine);
}

void memory_check(const struct memory *memory)
{
    engine_check(memory->engine);
}
