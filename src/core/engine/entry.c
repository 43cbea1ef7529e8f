/*
 * Entries: the place of the record of a job, the structures that link it, and its changes of state. Each change
 * unlinks the job from the structures of its old state and links it into those of the new one.
 */
#include "engine/state.h"
#include "queue/life.h"

#include <assert.h>
#include <stdlib.h>

enum { RETRY_WITHOUT_MEMORY_MS = 1000 };

/* ---- the place of the record: in the log or in a slot of a run; and the counts of the topic ---- */

struct topic *entry_topic(const struct engine *engine, const struct entry *entry)
{
    return engine->topics[entry->topic];
}

struct record_place entry_slot(const struct entry *entry)
{
    return record_place_is_run(entry->place) ? entry->place : (struct record_place){0};
}

bool entry_is_at(const struct entry *entry, struct record_place place)
{
    return entry->place.bytes && entry->place.file == place.file && entry->place.at == place.at;
}

void entry_hold_slot(const struct engine *engine, struct record_place place, bool in_memory)
{
    if (engine->sink.hold_slot)
        engine->sink.hold_slot(engine->sink.ctx, place, in_memory);
}

void entry_settle(struct engine *engine, struct entry *entry, struct record_place place,
                  enum job_section section)
{
    struct topic *topic = entry_topic(engine, entry);
    assert(record_place_is_run(place) && !entry->place.bytes);
    entry->place = place;
    entry->section = (uint64_t)section & 7;
    entry_hold_slot(engine, place, true);
    topic->loaded[section]++;
    uint64_t *bytes = topic_loaded_bytes(topic, section);
    if (bytes)
        *bytes += place.bytes;
}

enum engine_slot engine_slot_release(struct engine *engine, struct topic *topic,
                                     struct record_place place)
{
    enum job_section section;
    if (!engine->sink.release_slot)
        return SLOT_WAS_DEAD;
    enum engine_slot slot = engine->sink.release_slot(engine->sink.ctx, place, &section);
    if (slot != SLOT_RELEASED)
        return slot;
    assert(topic->stored[section]);
    topic->stored[section]--;
    uint64_t *bytes = topic_stored_bytes(topic, section);
    if (bytes)
        *bytes -= place.bytes;
    return slot;
}

void entry_release(struct engine *engine, struct entry *entry)
{
    struct record_place place = entry->place;
    if (!place.bytes)
        return;
    entry->place = (struct record_place){0};
    if (!record_place_is_run(place)) {
        if (engine->sink.release)
            engine->sink.release(engine->sink.ctx, place);
        return;
    }
    struct topic *topic = entry_topic(engine, entry);
    topic->loaded[entry->section]--;
    uint64_t *bytes = topic_loaded_bytes(topic, (enum job_section)entry->section);
    if (bytes)
        *bytes -= place.bytes;
    engine_slot_release(engine, topic, place);
}

/* ---- contents of an entry ---- */

struct extra *entry_need_extra(struct engine *engine, struct entry *entry)
{
    if (!entry->extra) {
        entry->extra = slab_add(&engine->extras);
        if (!entry->extra)
            return NULL;
        entry_extra(engine, entry)->first_due_ms = (int64_t)entry->due_ms;
    }
    return entry_extra(engine, entry);
}

void entry_drop_extra(struct engine *engine, struct entry *entry)
{
    if (!entry->extra)
        return;
    entry_drop_next(engine, entry_extra(engine, entry));
    own_policy_drop(engine, &entry_extra(engine, entry)->policy);
    free(entry_extra(engine, entry)->text);
    slab_remove(&engine->extras, entry->extra);
    entry->extra = 0;
}

/* ---- the policy of a job ---- */

void own_policy_drop(struct engine *engine, struct own_policy *policy)
{
    if (policy->steps)
        slab_remove(&engine->steps, policy->steps);
    if (policy->group)
        flow_group_drop(engine, policy->group);
    if (__builtin_expect(policy->batch != 0, 0))
        batch_unlink(engine, policy->batch);
    *policy = (struct own_policy){0};
}

bool entry_set_group(struct engine *engine, struct topic *topic, struct own_policy *policy,
                     struct slice group)
{
    uint32_t number = 0, old = policy->group;
    if (group.len && !(number = flow_group_hold(engine, topic, group)))
        return false;
    policy->group = number;
    if (old)
        flow_group_drop(engine, old);
    return true;
}

bool own_policy_set(struct engine *engine, struct own_policy *into, const struct policy *policy)
{
    const struct backoff *backoff = &policy->backoff;
    if (into->steps)
        slab_remove(&engine->steps, into->steps);
    *into = (struct own_policy){.lease_ms = policy->lease_ms,
                                .ttl_ms = policy->ttl_ms,
                                .first_ms = backoff->first_ms,
                                .max_ms = backoff->max_ms,
                                .max_attempts = policy->max_attempts,
                                .backoff = backoff->kind & 15u,
                                .batch = into->batch,
                                .group = into->group};
    if (backoff->kind != BACKOFF_LIST)
        return true;
    if (!(into->steps = slab_add(&engine->steps))) {
        into->backoff = 0;
        return false;
    }
    struct steps *steps = slab_at(&engine->steps, into->steps);
    steps->count = backoff->step_count;
    memcpy(steps->ms, backoff->steps_ms, sizeof steps->ms);
    return true;
}

struct policy own_policy_show(const struct engine *engine, const struct own_policy *policy)
{
    struct policy shown = {.lease_ms = policy->lease_ms,
                           .ttl_ms = policy->ttl_ms,
                           .backoff = {.kind = (enum backoff_kind)policy->backoff,
                                       .first_ms = policy->first_ms,
                                       .max_ms = policy->max_ms},
                           .max_attempts = policy->max_attempts};
    if (policy->steps) {
        const struct steps *steps = slab_at(&engine->steps, policy->steps);
        shown.backoff.step_count = steps->count;
        memcpy(shown.backoff.steps_ms, steps->ms, sizeof steps->ms);
    }
    return shown;
}

/* ---- the successor of a leased job ---- */

void entry_drop_next(struct engine *engine, struct extra *extra)
{
    if (extra->successor) {
        struct successor *next = slab_at(&engine->successors, extra->successor);
        own_policy_drop(engine, &next->policy);
        slab_remove(&engine->successors, extra->successor);
    }
    extra->successor = 0;
    extra->next = NEXT_NONE;
}

bool entry_set_next(struct engine *engine, struct extra *extra, const struct job *job)
{
    struct job next;
    struct own_policy policy = {0};
    bool has_next = record_next_decode(job, &next);
    if (has_next &&
        (!own_policy_set(engine, &policy, &next.policy) ||
         (next.group.len && !entry_set_group(engine, engine_topic_lookup(engine, next.topic),
                                             &policy, next.group)))) {
        own_policy_drop(engine, &policy);
        return false;
    }
    uint32_t batch = 0;
    if (has_next && !batch_link(engine, next.batch, &batch)) {
        own_policy_drop(engine, &policy);
        return false;
    }
    policy.batch = batch & 0xfffffffu;
    entry_drop_next(engine, extra);
    if (!has_next)
        return true;
    if (!(extra->successor = slab_add(&engine->successors))) {
        own_policy_drop(engine, &policy);
        return false;
    }
    *(struct successor *)slab_at(&engine->successors, extra->successor) =
        (struct successor){.policy = policy,
                           .due_ms = next.due_ms,
                           .due_is_wall = next.due_is_wall,
                           .priority = next.priority,
                           .has_keep = next.has_keep,
                           .sequence = next.sequence};
    extra->next = NEXT_WAITS;
    if (next.sequence > engine->sequence)
        engine->sequence = next.sequence;
    return true;
}

void entry_take_next(struct engine *engine, struct entry *entry)
{
    struct extra *extra = entry_extra(engine, entry);
    struct successor *waiting = slab_at(&engine->successors, extra->successor);
    struct successor next = *waiting;
    waiting->policy.steps = waiting->policy.group = 0; /* they belong to the job now */
    waiting->policy.batch = 0;
    entry_drop_next(engine, extra);
    extra->next = NEXT_STARTED;
    entry_set_times(entry, next.due_ms, next.due_is_wall, next.priority);
    entry->sequence = next.sequence & 0xffffffffffffffu;
    entry_set_texts(engine, entry, (struct slice){0}, (struct slice){0});
    own_policy_drop(engine, &extra->policy);
    extra->policy = next.policy;
    extra->first_due_ms = next.due_ms;
    extra->attempt = 0;
    extra->delivery = 0;
    extra->lease_until_ms = extra->taken_ms = 0;
    extra->lease_ms = extra->ended_file = 0;
    extra->history_bytes = extra->error_bytes = 0;
    extra->cancel_requested = false;
    extra->marks = next.has_keep ? EXTRA_KEEPS_OWN : 0;
}

struct policy entry_policy(const struct engine *engine, const struct entry *entry)
{
    static const struct own_policy none;
    const struct extra *extra = entry_extra(engine, entry);
    const struct policy own = own_policy_show(engine, extra ? &extra->policy : &none);
    return policy_resolve(&own, &entry_topic(engine, entry)->settings.policy);
}

int64_t entry_lease_ms(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    int64_t own_ms = extra ? extra->policy.lease_ms : 0;
    int64_t topic_ms = entry_topic(engine, entry)->settings.policy.lease_ms;
    return own_ms ? own_ms : topic_ms ? topic_ms : POLICY_LEASE_MS;
}

int64_t entry_first_due_ms(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    return extra ? extra->first_due_ms : (int64_t)entry->due_ms;
}

void entry_set_first_due(struct engine *engine, struct entry *entry, int64_t first_due_ms)
{
    struct extra *extra = entry_extra(engine, entry);
    if (extra)
        extra->first_due_ms = first_due_ms;
}

int64_t entry_due_inner_ms(const struct entry *entry, int64_t skew_ms)
{
    int64_t due_ms = (int64_t)entry->due_ms;
    if (entry->flags & ENTRY_DUE_IS_WALL)
        due_ms -= skew_ms;
    return due_ms < 0 ? 0 : due_ms;
}

int64_t entry_due_wall_ms(const struct entry *entry, int64_t skew_ms)
{
    return (int64_t)entry->due_ms + (entry->flags & ENTRY_DUE_IS_WALL ? 0 : skew_ms);
}

struct slice entry_history(const struct extra *extra)
{
    return extra ? slice_make(extra->text, extra->history_bytes) : (struct slice){0};
}

struct slice entry_error(const struct extra *extra)
{
    return extra && extra->error_bytes
               ? slice_make(extra->text + extra->history_bytes, extra->error_bytes)
               : (struct slice){0};
}

struct slice entry_consumer(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    return entry->state == JOB_LEASED && extra->consumer_bytes
               ? slice_make(extra->text + extra->history_bytes + extra->error_bytes,
                            extra->consumer_bytes)
               : (struct slice){0};
}

bool entry_set_consumer(struct engine *engine, struct entry *entry, struct slice consumer)
{
    struct extra *extra = entry_extra(engine, entry);
    size_t before = (size_t)extra->history_bytes + extra->error_bytes;
    assert(consumer.len <= JOB_CONSUMER_BYTES_MAX);
    extra->consumer_bytes = 0;
    extra->marks &= (uint8_t)~EXTRA_HAS_PROGRESS;
    if (!consumer.len)
        return true;
    char *text = realloc(extra->text, before + consumer.len);
    if (!text)
        return false;
    memcpy(text + before, consumer.at, consumer.len);
    extra->text = text;
    extra->consumer_bytes = (uint8_t)consumer.len;
    return true;
}

/* Returns where the progress begins, with its length, in the text of a leased job. */
static size_t progress_at(const struct extra *extra)
{
    return (size_t)extra->history_bytes + extra->error_bytes + extra->consumer_bytes;
}

struct slice entry_progress(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    uint16_t bytes;
    if (entry->state != JOB_LEASED || !(extra->marks & EXTRA_HAS_PROGRESS))
        return (struct slice){0};
    memcpy(&bytes, extra->text + progress_at(extra), sizeof bytes);
    return slice_make(extra->text + progress_at(extra) + sizeof bytes, bytes);
}

bool entry_set_progress(struct engine *engine, struct entry *entry, struct slice progress)
{
    struct extra *extra = entry_extra(engine, entry);
    size_t before = progress_at(extra);
    uint16_t bytes = (uint16_t)progress.len;
    char *text = realloc(extra->text, before + sizeof bytes + progress.len);
    if (!text)
        return false;
    memcpy(text + before, &bytes, sizeof bytes);
    memcpy(text + before + sizeof bytes, progress.at, progress.len);
    extra->text = text;
    extra->marks |= EXTRA_HAS_PROGRESS;
    return true;
}

void entry_set_texts(struct engine *engine, struct entry *entry, struct slice history,
                     struct slice error)
{
    struct extra *extra = entry_extra(engine, entry);
    char *text = NULL;
    assert(extra);
    extra->consumer_bytes = 0;
    extra->marks &= (uint8_t)~EXTRA_HAS_PROGRESS;
    if (error.len > JOB_ERROR_BYTES_MAX)
        error.len = JOB_ERROR_BYTES_MAX;
    assert(history.len <= JOB_HISTORY_BYTES_MAX);
    if (history.len + error.len) {
        text = malloc(history.len + error.len);
        if (!text) {
            extra->error_bytes = 0;
            return;
        }
        if (history.len)
            memcpy(text, history.at, history.len);
        if (error.len)
            memcpy(text + history.len, error.at, error.len);
    }
    free(extra->text);
    extra->text = text;
    extra->history_bytes = (uint16_t)history.len;
    extra->error_bytes = (uint16_t)error.len;
}

void entry_add_history(struct engine *engine, struct entry *entry, const struct record_ended *ended,
                       struct slice error)
{
    char history[JOB_HISTORY_BYTES_MAX];
    struct job_attempt attempt = {.attempt = entry_attempt(engine, entry),
                                  .started_ms = ended->started_ms,
                                  .duration_ms = ended->duration_ms,
                                  .outcome = ended->outcome,
                                  .error = error};
    size_t bytes = job_history_add(entry_history(entry_extra(engine, entry)), &attempt, history);
    entry_set_texts(engine, entry, slice_make(history, bytes), error);
}

void entry_set_times(struct entry *entry, int64_t due_ms, bool is_wall, uint16_t priority)
{
    entry->due_ms = (uint64_t)due_ms & 0xffffffffffffu;
    entry->flags = is_wall ? ENTRY_DUE_IS_WALL : 0;
    entry->priority = priority;
}

void entry_set_state_file(struct engine *engine, struct entry *entry, uint32_t file, bool ends)
{
    struct extra *extra = entry_extra(engine, entry);
    entry->state_file = file & ~RECORD_IN_RUN;
    if (ends && extra && !extra->ended_file)
        extra->ended_file = file;
}

void entry_is_recorded(struct engine *engine, struct entry *entry)
{
    entry->state_file = 0;
    if (!entry->extra)
        return;
    struct extra *extra = entry_extra(engine, entry);
    extra->ended_file = 0;
    if (extra->next != NEXT_WAITS)
        extra->next = NEXT_NONE;
}

/* Returns whether the job needs no extra. */
static bool job_is_plain(const struct job *job)
{
    return job->state == JOB_DELAYED && !job->attempt && !job->delivery && !job->policy.lease_ms &&
           !job->policy.ttl_ms && !job->policy.backoff.kind && !job->policy.max_attempts &&
           job->first_due_ms == job->due_ms && !job->error.len && !job->history.len &&
           !job->has_keep && !job->group.len && !job->batch.len;
}

bool entry_from_job(struct engine *engine, struct entry *entry, const struct job *job)
{
    entry->sequence = job->sequence & 0xffffffffffffffu;
    entry_set_times(entry, job->due_ms, job->due_is_wall, job->priority);
    if (job_is_plain(job) && !entry->extra)
        return true;
    struct extra *extra = entry_need_extra(engine, entry);
    if (!extra)
        return false;
    if (!own_policy_set(engine, &extra->policy, &job->policy) ||
        !entry_set_group(engine, entry_topic(engine, entry), &extra->policy, job->group))
        return false;
    extra->first_due_ms = job->first_due_ms;
    extra->attempt = job->attempt;
    extra->delivery = job->delivery;
    extra->lease_until_ms = job->lease_until_ms;
    extra->taken_ms = job->taken_ms;
    extra->lease_ms = 0; /* not recorded */
    extra->ended_file = 0;
    extra->cancel_requested = job->cancel_requested;
    entry_set_texts(engine, entry, job->history, job->error);
    if (!entry_set_next(engine, extra, job) || !entry_set_consumer(engine, entry, job->consumer) ||
        (job->progress.len && !entry_set_progress(engine, entry, job->progress)))
        return false;
    if (job->has_keep)
        extra->marks |= EXTRA_KEEPS_OWN;
    else
        extra->marks &= (uint8_t)~EXTRA_KEEPS_OWN;
    if (!batch_entry_set(engine, entry, job))
        return false;
    struct topic *topic = entry_topic(engine, entry);
    bool next_keeps =
        extra->successor &&
        ((const struct successor *)slab_at(&engine->successors, extra->successor))->has_keep;
    if ((job->has_keep || next_keeps) && topic) {
        topic->has_own_keeps = true;
        engine_topic_mind(engine, topic);
    }
    return true;
}

/* ---- the ready jobs of a topic or a group ---- */

static void ready_put(struct engine *engine, struct ready_heap *heap, uint32_t at,
                      struct ready_item item)
{
    heap->items[at] = item;
    entry_at(engine, item.id)->ready_at = at;
}

static void ready_sift_up(struct engine *engine, struct ready_heap *heap, uint32_t at,
                          struct ready_item item)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (!ready_comes_before(&item, &heap->items[parent]))
            break;
        ready_put(engine, heap, at, heap->items[parent]);
        at = parent;
    }
    ready_put(engine, heap, at, item);
}

static void ready_sift_down(struct engine *engine, struct ready_heap *heap, uint32_t at,
                            struct ready_item item)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            ready_comes_before(&heap->items[child + 1], &heap->items[child]))
            child++;
        if (!ready_comes_before(&heap->items[child], &item))
            break;
        ready_put(engine, heap, at, heap->items[child]);
        at = child;
    }
    ready_put(engine, heap, at, item);
}

/* Returns the heap in which the ready job belongs. */
static struct ready_heap *ready_heap_of(struct engine *engine, struct topic *topic,
                                        const struct entry *entry)
{
    return __builtin_expect(topic->flow != NULL, 0)
               ? flow_heap(engine, topic, entry_group(engine, entry))
               : &topic->ready;
}

/* Reserves room for one more job. */
static bool ready_reserve(struct engine *engine, struct topic *topic, const struct entry *entry)
{
    struct ready_heap *heap = ready_heap_of(engine, topic, entry);
    if (heap->count < heap->cap)
        return true;
    uint32_t first = heap == &topic->ready ? 64 : 1;
    uint32_t cap = heap->cap ? heap->cap * 2 : first;
    struct ready_item *items = realloc(heap->items, cap * sizeof *items);
    if (!items)
        return false;
    heap->items = items;
    heap->cap = cap;
    return true;
}

struct ready_item entry_ready_item(const struct engine *engine, uint32_t id, int64_t skew_ms)
{
    const struct entry *entry = entry_at(engine, id);
    bool is_strict = entry_topic(engine, entry)->settings.flow.group_order == FLOW_STRICT;
    struct ready_item item = {.order =
                                  (uint64_t)entry->priority << 48 |
                                  ((uint64_t)entry_due_inner_ms(entry, skew_ms) & 0xffffffffffffu),
                              .sequence = entry->sequence,
                              .id = id,
                              .priority = (uint16_t)entry->priority};
    if (__builtin_expect(is_strict, 0)) {
        item.is_tried = entry_attempt(engine, entry) != 0;
        item.order = item.is_tried ? 0 : item.order ? item.order : 1;
    }
    return item;
}

static void ready_add(struct engine *engine, struct topic *topic, uint32_t id, int64_t skew_ms)
{
    const struct entry *entry = entry_at(engine, id);
    struct ready_heap *heap = ready_heap_of(engine, topic, entry);
    assert(heap->count < heap->cap);
    ready_sift_up(engine, heap, heap->count++, entry_ready_item(engine, id, skew_ms));
    if (__builtin_expect(topic->flow != NULL, 0))
        flow_ready_added(engine, topic, entry_group(engine, entry));
    else if (heap->count == 1 && !topic->paused && !engine->recovering)
        engine->sink.ready(engine->sink.ctx, topic->name);
}

static void ready_remove(struct engine *engine, struct topic *topic, uint32_t id)
{
    const struct entry *entry = entry_at(engine, id);
    struct ready_heap *heap = ready_heap_of(engine, topic, entry);
    uint32_t at = entry->ready_at;
    assert(at < heap->count && heap->items[at].id == id);
    struct ready_item last = heap->items[--heap->count];
    if (last.id != id) {
        if (at > 0 && ready_comes_before(&last, &heap->items[(at - 1) / 2]))
            ready_sift_up(engine, heap, at, last);
        else
            ready_sift_down(engine, heap, at, last);
    }
    /* Free the memory of a burst once it has drained. */
    if (heap->cap > 4096 && heap->count < heap->cap / 8) {
        struct ready_item *items = realloc(heap->items, heap->cap / 4 * sizeof *items);
        if (items) {
            heap->items = items;
            heap->cap /= 4;
        }
    }
    if (__builtin_expect(topic->flow != NULL, 0))
        flow_ready_removed(engine, topic, entry_group(engine, entry));
}

/* Returns the count of the topic that includes the job. `adds`: the job is added to it, else removed. */
static inline uint64_t *state_count(const struct engine *engine, struct topic *topic,
                                    const struct entry *entry, bool adds)
{
    switch ((enum job_state)entry->state) {
    case JOB_DELAYED:
        return entry_attempt(engine, entry) ? &topic->counts.retrying : &topic->counts.delayed;
    case JOB_READY:
        return &topic->counts.ready;
    case JOB_LEASED:
        return &topic->counts.leased;
    case JOB_DEAD:
        return &topic->counts.dead;
    case JOB_FINISHED:
        if (entry->priority != ENTRY_KEPT)
            return &topic->remembered;
        topic->kept_bytes += adds ? (uint64_t)entry->place.bytes : -(uint64_t)entry->place.bytes;
        return &topic->kept;
    }
    assert(false); /* not a state */
    return NULL;
}

/* Appends to the dead jobs of the topic. */
static void dead_add(struct engine *engine, struct topic *topic, uint32_t id)
{
    struct wheel_node *node = &entry_at(engine, id)->timer;
    topic->counts.dead_bytes += entry_at(engine, id)->place.bytes;
    node->prev = topic->dead_last;
    node->next = 0;
    if (topic->dead_last)
        entry_at(engine, topic->dead_last)->timer.next = id;
    else
        topic->dead_first = id;
    topic->dead_last = id;
}

static void dead_remove(struct engine *engine, struct topic *topic, uint32_t id)
{
    struct wheel_node *node = &entry_at(engine, id)->timer;
    topic->counts.dead_bytes -= entry_at(engine, id)->place.bytes;
    if (node->prev)
        entry_at(engine, node->prev)->timer.next = node->next;
    else
        topic->dead_first = node->next;
    if (node->next)
        entry_at(engine, node->next)->timer.prev = node->prev;
    else
        topic->dead_last = node->prev;
    node->prev = node->next = 0;
}

/* Returns whether the entry counts for the quota of its topic (engine_loaded_of). */
static bool entry_waits_in_slot(const struct engine *engine, const struct entry *entry)
{
    return record_place_is_run(entry->place) && entry_waits(engine, entry);
}

/* Counts the entry for the quota, or no longer. */
static void count_waiting(struct engine *engine, struct topic *topic, const struct entry *entry,
                          bool begins)
{
    if (!entry_waits_in_slot(engine, entry))
        return;
    topic->waiting = begins ? topic->waiting + 1 : topic->waiting - 1;
    if (__builtin_expect(topic->flow != NULL, 0))
        flow_waits(engine, topic, entry_group(engine, entry), begins);
}

/* Returns whether the job waits after an attempt. */
static bool entry_waits_tried(const struct engine *engine, const struct entry *entry)
{
    return (entry->state == JOB_DELAYED || entry->state == JOB_READY) &&
           entry_attempt(engine, entry);
}

/* Counts the job in its group, if it has not ended, or no longer. */
static __attribute__((noinline)) void count_in_group(struct engine *engine, struct topic *topic,
                                                     const struct entry *entry, bool begins)
{
    uint32_t group = entry_group(engine, entry);
    if (entry_waits_tried(engine, entry))
        flow_tried(engine, topic, group, begins);
    if (entry->state != JOB_DEAD && entry->state != JOB_FINISHED)
        flow_unfinished(engine, topic, group, begins);
}

/* Counts a leased job in its group and its batch, or no longer. */
static inline void count_leased(struct engine *engine, struct topic *topic,
                                const struct entry *entry, bool begins)
{
    uint32_t batch = entry_extra(engine, entry)->policy.batch;
    if (__builtin_expect(batch != 0, 0))
        batch_at(engine, batch)->leased += begins ? 1u : UINT32_MAX;
    if (__builtin_expect(topic->flow != NULL, 0))
        flow_leased(engine, topic, entry_group(engine, entry), begins);
}

void entry_unhang(struct engine *engine, uint32_t id)
{
    struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    --*state_count(engine, topic, entry, false);
    count_waiting(engine, topic, entry, false);
    topic->changes++;
    if (__builtin_expect(topic->flow != NULL, 0))
        count_in_group(engine, topic, entry, false);
    if (entry->state == JOB_READY)
        ready_remove(engine, topic, id);
    else if (entry->state == JOB_DELAYED)
        entry_uncount_due(engine, id);
    else if (entry->state == JOB_LEASED)
        count_leased(engine, topic, entry, false);
    if (entry->state == JOB_DEAD)
        dead_remove(engine, topic, id);
    else
        wheel_remove(&engine->wheel, id);
}

static bool entry_is_due(const struct entry *entry, struct engine_now now)
{
    return (int64_t)entry->due_ms <=
           (entry->flags & ENTRY_DUE_IS_WALL ? now.wall_ms : now.inner_ms);
}

/* Adds a delayed job to the wheel, which uses the inner clock. A due by the wall clock is checked again when the
 * wheel returns the job, so an outdated skew never makes it early. */
static void hang_delayed(struct engine *engine, uint32_t id, struct engine_now now)
{
    int64_t when_ms = entry_due_inner_ms(entry_at(engine, id), now.skew_ms);
    if (when_ms <= now.inner_ms)
        when_ms = now.inner_ms + 1;
    wheel_add(&engine->wheel, id, when_ms);
}

static int64_t entry_ttl_ms(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    return extra && extra->policy.ttl_ms ? extra->policy.ttl_ms
                                         : entry_topic(engine, entry)->settings.policy.ttl_ms;
}

static void hang_ready(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    int64_t ttl_ms = entry_ttl_ms(engine, entry);
    if (ttl_ms) {
        int64_t first_ms = entry_first_due_ms(engine, entry);
        int64_t until_ms = first_ms + ttl_ms - (entry->flags & ENTRY_DUE_IS_WALL ? now.skew_ms : 0);
        wheel_add(&engine->wheel, id, until_ms > 0 ? until_ms : 0);
    }
    ready_add(engine, entry_topic(engine, entry), id, now.skew_ms);
}

void entry_hang(struct engine *engine, uint32_t id, enum job_state state, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    bool starved = false;
    if (state == JOB_DELAYED || state == JOB_READY) {
        state = entry_is_due(entry, now) ? JOB_READY : JOB_DELAYED;
        if (state == JOB_READY && entry->extra) {
            entry->state = JOB_DELAYED; /* only a job that waits can be kept back */
            state = entry_is_kept_back(engine, entry) ? JOB_DELAYED : JOB_READY;
        }
        if (state == JOB_READY && !ready_reserve(engine, topic, entry)) {
            starved = true;
            state = JOB_DELAYED;
        }
    }
    entry->state = (uint64_t)state & 7;
    ++*state_count(engine, topic, entry, true);
    count_waiting(engine, topic, entry, true);
    topic->changes++;
    if (__builtin_expect(topic->flow != NULL, 0))
        count_in_group(engine, topic, entry, true);

    switch (state) {
    case JOB_DELAYED:
        if (starved)
            wheel_add(&engine->wheel, id, now.inner_ms + RETRY_WITHOUT_MEMORY_MS);
        else
            hang_delayed(engine, id, now);
        entry_count_due(engine, id, now);
        break;
    case JOB_READY:
        hang_ready(engine, id, now);
        break;
    case JOB_LEASED:
        wheel_add(&engine->wheel, id, entry_lease_end_ms(engine, entry_extra(engine, entry)));
        count_leased(engine, topic, entry, true);
        break;
    case JOB_DEAD:
        dead_add(engine, topic, id);
        break;
    case JOB_FINISHED:
        wheel_add(&engine->wheel, id, (int64_t)entry->due_ms);
        break;
    }
}

/* Appends a STATE record, with the attempt that ended and the end that started the successor, if any. */
static void record_change(struct engine *engine, uint32_t id, struct record_ended ended,
                          enum record_next after)
{
    struct entry *entry = entry_at(engine, id);
    const struct extra *extra = entry_extra(engine, entry);
    enum job_state state = entry->state == JOB_READY ? JOB_DELAYED : (enum job_state)entry->state;
    if (!after && extra && extra->next != NEXT_WAITS)
        after = (enum record_next)extra->next;
    struct record record = {
        .kind = RECORD_STATE,
        .from = entry_slot(entry),
        .state = {.key = entry->key,
                  .state = state,
                  .due_is_wall = entry->flags & ENTRY_DUE_IS_WALL,
                  .priority = (uint16_t)entry->priority,
                  .attempt = extra ? extra->attempt : 0,
                  .due_ms = (int64_t)entry->due_ms,
                  .first_due_ms = entry_first_due_ms(engine, entry),
                  .lease_until_ms = state == JOB_LEASED ? extra->lease_until_ms : 0,
                  .taken_ms = state == JOB_LEASED ? extra->taken_ms : 0,
                  .delivery = extra ? extra->delivery : 0,
                  .error = entry_error(extra),
                  .consumer = entry_consumer(engine, entry),
                  .cancel_requested = state == JOB_LEASED && extra->cancel_requested,
                  .progress = entry_progress(engine, entry),
                  .ended = ended,
                  .next = after}};
    struct record_place place = engine->sink.append(engine->sink.ctx, &record);
    entry_set_state_file(engine, entry, place.file, ended.outcome);
}

void entry_record(struct engine *engine, uint32_t id)
{
    record_change(engine, id, (struct record_ended){0}, RECORD_NEXT_STAYS);
}

void entry_start_next(struct engine *engine, uint32_t id, enum record_next after,
                      struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    bool is_replacement = after >= RECORD_NEXT_AFTER_NACK;
    bool owns = entry_extra(engine, entry)->marks & EXTRA_OWNS;
    uint64_t sequence = entry->sequence;
    entry_take_next(engine, entry);
    record_next_count(&entry_topic(engine, entry)->totals, after);
    entry_hang(engine, id, JOB_DELAYED, now);
    record_change(engine, id, (struct record_ended){0}, after);
    if (__builtin_expect(owns, 0)) /* the completion job has ended */
        batch_drop(engine, sequence);
    entry_notify(engine, id, is_replacement ? JOB_EVENT_REPLACED : JOB_EVENT_PUSHED,
                 (struct slice){0}, (struct slice){0}, now);
}

uint32_t entry_new(struct engine *engine, const struct topic *topic, struct hash128 key)
{
    uint32_t id = slab_add(&engine->entries);
    if (id) {
        struct entry *entry = entry_at(engine, id);
        entry->key = key;
        entry->topic = topic ? topic->id : 0;
        engine_index_add(engine, id);
    }
    return id;
}

void entry_discard(struct engine *engine, uint32_t id)
{
    engine_index_remove(engine, id);
    entry_drop_extra(engine, entry_at(engine, id));
    slab_remove(&engine->entries, id);
}

void entry_forget(struct engine *engine, uint32_t id)
{
    struct topic *topic = entry_topic(engine, entry_at(engine, id));
    entry_release(engine, entry_at(engine, id));
    entry_discard(engine, id);
    engine_topic_let_go(engine, topic);
}

void entry_remember(struct engine *engine, uint32_t id, int64_t for_ms, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    entry->sequence = ++engine->sequence & 0xffffffffffffffu;
    struct record record = {.kind = RECORD_DONE,
                            .done = {.key = entry->key,
                                     .reason = RECORD_ACKED,
                                     .carried = true, /* not an end of a job */
                                     .remember_until_ms = now.inner_ms + 1 + for_ms,
                                     .sequence = entry->sequence,
                                     .topic = entry_topic(engine, entry)->name}};
    entry->place = engine->sink.append(engine->sink.ctx, &record);
    entry_hang_done(engine, id, &record.done, now);
}

void entry_finish(struct engine *engine, uint32_t id, enum record_reason reason,
                  struct engine_now now)
{
    const struct topic *topic = entry_topic(engine, entry_at(engine, id));
    if (__builtin_expect(topic->minds_ends, 0))
        kept_finish(engine, id, reason, NULL, false, now);
    else
        entry_finish_plainly(engine, id, reason, now);
}

void entry_finish_acked(struct engine *engine, uint32_t id, const struct queue_answer *answer,
                        struct engine_now now)
{
    const struct topic *topic = entry_topic(engine, entry_at(engine, id));
    if (__builtin_expect(topic->minds_ends, 0))
        kept_finish(engine, id, RECORD_ACKED, answer, false, now);
    else
        entry_finish_plainly(engine, id, RECORD_ACKED, now);
}

void entry_finish_plainly(struct engine *engine, uint32_t id, enum record_reason reason,
                          struct engine_now now)
{
    const struct entry *entry = entry_at(engine, id);
    struct topic *topic = entry_topic(engine, entry);
    struct record record = {.kind = RECORD_DONE,
                            .from = entry_slot(entry),
                            .done = {.key = entry->key,
                                     .reason = reason,
                                     .sequence = entry->sequence,
                                     .topic = topic->name}};
    engine->sink.append(engine->sink.ctx, &record);
    engine_topic_count_done(topic, reason);
    entry_ended(engine, id, reason, now);
    entry_forget(engine, id);
}

void entry_set_delay(struct engine *engine, struct entry *entry, int64_t delay_ms,
                     struct engine_now now)
{
    int64_t due_ms = now.inner_ms + (delay_ms ? delay_ms + 1 : 0);
    /* Convert the first due to the clock of due_ms. */
    if (entry->flags & ENTRY_DUE_IS_WALL) {
        entry_set_first_due(engine, entry, entry_first_due_ms(engine, entry) - now.skew_ms);
        entry->flags = 0;
    }
    entry->due_ms = (uint64_t)due_ms & 0xffffffffffffu;
}

/* Returns the attempt that ended. A lease ended at its scheduled time, even if this was noticed later. If the time
 * of the take is unknown, the lease is assumed to have the usual length. */
static struct record_ended end_attempt(const struct engine *engine, const struct entry *entry,
                                       enum job_outcome outcome, struct engine_now now)
{
    const struct extra *extra = entry_extra(engine, entry);
    int64_t end_ms =
        outcome == JOB_OUTCOME_LEASE_ENDED ? entry_lease_end_ms(engine, extra) : now.inner_ms;
    int64_t taken_ms = extra->taken_ms;
    if (!taken_ms)
        taken_ms = extra->lease_until_ms - 1 - entry_lease_ms(engine, entry);
    if (taken_ms > end_ms)
        taken_ms = end_ms;
    int64_t started_ms = taken_ms + now.skew_ms;
    return (struct record_ended){.outcome = outcome,
                                 .started_ms = started_ms > 0 ? started_ms : 0,
                                 .duration_ms = end_ms - taken_ms};
}

void entry_died(struct engine *engine, const struct entry *entry)
{
    struct topic *topic = entry_topic(engine, entry);
    topic->totals.died++;
    if (topic->settings.extension.len)
        engine->sink.died(engine->sink.ctx, topic->name);
}

void entry_fail(struct engine *engine, uint32_t id, enum job_outcome outcome, int64_t delay_ms,
                struct slice error, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    struct policy policy = entry_policy(engine, entry);
    struct record_ended ended = end_attempt(engine, entry, outcome, now);
    uint32_t attempt = entry_attempt(engine, entry);
    bool dies = life_fail(outcome, attempt, &policy) == LIFE_DIED;
    entry_add_history(engine, entry, &ended, error);
    if (!dies && delay_ms < 0)
        delay_ms = policy_backoff_ms(&policy.backoff, attempt, random_next(&engine->random));
    if (!dies)
        entry_set_delay(engine, entry, delay_ms, now);
    entry_hang(engine, id, dies ? JOB_DEAD : JOB_DELAYED, now);
    if (dies)
        entry_died(engine, entry);
    record_change(engine, id, ended, RECORD_NEXT_STAYS);
    uint32_t batch = entry_extra(engine, entry)->policy.batch;
    if (__builtin_expect(dies && batch, 0))
        batch_member_changed(engine, batch, BATCH_UNFINISHED, BATCH_DEAD, now);
    if (outcome == JOB_OUTCOME_LEASE_ENDED)
        entry_notify(engine, id, JOB_EVENT_LEASE_ENDED, (struct slice){0}, (struct slice){0}, now);
    else
        entry_notify(engine, id, JOB_EVENT_NACKED, (struct slice){0}, error, now);
    if (dies)
        entry_notify(engine, id, JOB_EVENT_DEAD, (struct slice){0}, error, now);
    if (dies && entry_topic(engine, entry)->awaited)
        kept_died(engine, id, now);
}

static int64_t next_due_wall_ms(const struct engine *engine, const struct extra *extra,
                                int64_t skew_ms)
{
    const struct successor *next = slab_at(&engine->successors, extra->successor);
    return next->due_ms + (next->due_is_wall ? 0 : skew_ms);
}

void entry_view(const struct engine *engine, uint32_t id, struct engine_now now,
                struct engine_view *out)
{
    const struct entry *entry = entry_at(engine, id);
    const struct extra *extra = entry_extra(engine, entry);
    out->key = entry->key;
    out->place = entry->place;
    out->state = (enum job_state)entry->state;
    out->priority = (uint16_t)entry->priority;
    out->attempt = extra ? extra->attempt : 0;
    out->sequence = entry->sequence;
    out->due_ms = entry_due_wall_ms(entry, now.skew_ms);
    bool is_leased = entry->state == JOB_LEASED;
    struct slice consumer = entry_consumer(engine, entry);
    out->lease_until_ms = is_leased ? entry_lease_end_ms(engine, extra) + now.skew_ms : 0;
    out->cancel_requested = is_leased && extra_cancel_requested(engine, extra);
    out->has_batch = out->waits = false;
    if (extra && __builtin_expect(extra->marks & EXTRA_OWNS, 0))
        batch_view(engine, entry, out);
    out->next_started = extra && extra->next == NEXT_STARTED;
    out->next_due_ms = 0;
    if (extra && __builtin_expect(extra->successor != 0, 0))
        out->next_due_ms = next_due_wall_ms(engine, extra, now.skew_ms);
    out->delivery = extra ? extra->delivery : 0;
    out->text = NULL;
    out->history_bytes = out->error_bytes = out->progress_bytes = 0;
    out->consumer_bytes = 0;
    if (!extra)
        return;
    struct slice progress = entry_progress(engine, entry);
    size_t bytes = extra->history_bytes + extra->error_bytes + consumer.len;
    /* If there is no memory for the texts, the view omits them. */
    if (bytes + progress.len && (out->text = malloc(bytes + progress.len))) {
        out->history_bytes = extra->history_bytes;
        out->error_bytes = extra->error_bytes;
        out->consumer_bytes = (uint8_t)consumer.len;
        if (bytes)
            memcpy(out->text, extra->text, bytes);
        out->progress_bytes = (uint16_t)progress.len;
        if (progress.len)
            memcpy(out->text + bytes, progress.at, progress.len);
    }
}

void entry_notify_event(struct engine *engine, uint32_t id, const struct job_event *what,
                        struct engine_now now)
{
    const struct entry *entry = entry_at(engine, id);
    struct job_event event = *what;
    if (!(engine->event_kinds & job_event_bit(event.kind)))
        return;
    event.at_ms = now.inner_ms + now.skew_ms; /* the clock of the dues shown */
    event.topic = entry_topic(engine, entry)->name;
    /* The attempt that was returned is no longer counted. */
    event.attempt += entry_attempt(engine, entry) + (event.kind == JOB_EVENT_RETURNED);
    if (event.error.len > JOB_ERROR_BYTES_MAX)
        event.error.len = JOB_ERROR_BYTES_MAX;
    if (entry->state == JOB_DELAYED || entry->state == JOB_READY)
        event.due_ms = entry_due_wall_ms(entry, now.skew_ms);
    if (event.kind == JOB_EVENT_EXTENDED || event.kind == JOB_EVENT_PROGRESS)
        event.lease_until_ms = entry_lease_end_ms(engine, entry_extra(engine, entry)) + now.skew_ms;
    engine->sink.event(engine->sink.ctx, &event, entry->key, entry->place);
}

void engine_view_fini(struct engine_view *view)
{
    free(view->text);
    view->text = NULL;
    view->history_bytes = view->error_bytes = view->progress_bytes = 0;
    view->consumer_bytes = 0;
}
