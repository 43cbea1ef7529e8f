#include "model.h"

#include "queue/check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- storage ---- */

void *model_grow(void *items, size_t count, size_t *cap, size_t item_bytes)
{
    if (count < *cap)
        return items;
    *cap = *cap ? *cap * 2 : 32;
    items = realloc(items, *cap * item_bytes);
    assert(items);
    return items;
}

void model_init(struct model *model, int64_t now_ms, uint64_t body_bytes_max, size_t topics_max)
{
    *model = (struct model){
        .now_ms = now_ms, .body_bytes_max = body_bytes_max, .topics_max = topics_max};
}

void model_fini(struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++)
        free(model->jobs[i].bytes);
    for (size_t i = 0; i < model->topic_count; i++)
        free((char *)(uintptr_t)model->topics[i].settings.extension.at);
    free(model->jobs);
    free(model->memories);
    free(model->topics);
    free(model->events);
    *model = (struct model){0};
}

struct model_job *model_find(struct model *model, struct slice topic, struct slice id)
{
    for (size_t i = 0; i < model->job_count; i++)
        if (slice_is(topic, model->jobs[i].topic) && slice_is(id, model->jobs[i].id))
            return &model->jobs[i];
    return NULL;
}

static struct model_memory *find_memory(struct model *model, struct slice topic, struct slice id)
{
    for (size_t i = 0; i < model->memory_count; i++)
        if (slice_is(topic, model->memories[i].topic) && slice_is(id, model->memories[i].id))
            return &model->memories[i];
    return NULL;
}

static void forget(struct model *model, struct model_memory *memory)
{
    *memory = model->memories[--model->memory_count];
}

void model_forget_topic(struct model *model, const char *topic)
{
    for (size_t i = model->memory_count; i-- > 0;)
        if (strcmp(model->memories[i].topic, topic) == 0)
            forget(model, &model->memories[i]);
}

static void set_bytes(struct model_job *job, const struct queue_push *push)
{
    size_t type_bytes = push->content_type.len, meta_bytes = push->meta.len;
    char *bytes = calloc(1, type_bytes + meta_bytes + push->body.len + 1);

    assert(bytes);
    if (type_bytes)
        memcpy(bytes, push->content_type.at, type_bytes);
    if (meta_bytes)
        memcpy(bytes + type_bytes, push->meta.at, meta_bytes);
    if (push->body.len)
        memcpy(bytes + type_bytes + meta_bytes, push->body.at, push->body.len);
    free(job->bytes);
    job->bytes = bytes;
    job->content_type = slice_make(bytes, type_bytes);
    job->meta = slice_make(bytes + type_bytes, meta_bytes);
    job->body = slice_make(bytes + type_bytes + meta_bytes, push->body.len);
}

static void set_error(struct model_job *job, struct slice error)
{
    job->error_bytes = error.len < sizeof job->error ? error.len : sizeof job->error;
    if (job->error_bytes)
        memcpy(job->error, error.at, job->error_bytes);
}

/* ---- times ---- */

bool span_holds(struct span span, int64_t ms)
{
    return span.least_ms <= ms && ms <= span.most_ms;
}

static struct span exactly(int64_t ms)
{
    return (struct span){ms, ms};
}

/* Now was rounded down, so the end is rounded up: never early, at most one millisecond late. */
static struct span after(const struct model *model, int64_t least_ms, int64_t most_ms)
{
    if (most_ms == 0)
        return exactly(model->now_ms);
    return (struct span){model->now_ms + least_ms, model->now_ms + most_ms + 1};
}

static struct span when_to_due(const struct model *model, const struct queue_when *when)
{
    if (when->due == QUEUE_DUE_DELAY)
        return after(model, when->ms, when->ms);
    if (when->due == QUEUE_DUE_AT && when->ms > model->now_ms)
        return exactly(when->ms);
    return exactly(model->now_ms);
}

static bool is_too_far(const struct model *model, const struct queue_when *when)
{
    return when->due == QUEUE_DUE_AT && when->ms - model->now_ms > POLICY_DELAY_MS_MAX;
}

static struct span backoff_to_due(const struct model *model, const struct policy *policy,
                                  uint32_t attempt)
{
    int64_t wait_ms = policy->backoff.first_ms, spread_ms;

    for (uint32_t i = 1; i < attempt && policy->backoff.kind == BACKOFF_EXPONENTIAL; i++)
        if (wait_ms < policy->backoff.max_ms)
            wait_ms *= 2;
    if (wait_ms > policy->backoff.max_ms)
        wait_ms = policy->backoff.max_ms;
    spread_ms = wait_ms * POLICY_JITTER_PERCENT / 100;
    return after(model, wait_ms - spread_ms, wait_ms + spread_ms);
}

static void set_due(struct model *model, struct model_job *job, struct span due)
{
    job->due = due;
    job->state = due.most_ms <= model->now_ms ? JOB_READY : JOB_DELAYED;
    if (job->due_is_first)
        job->first_due = due;
}

void model_pin_due(struct model_job *job, int64_t due_ms)
{
    job->due = exactly(due_ms);
    if (job->due_is_first)
        job->first_due = job->due;
}

static struct policy policy_of(struct model *model, const struct model_job *job)
{
    return policy_resolve(&job->policy,
                          &model_find_topic(model, slice_of(job->topic))->settings.policy);
}

/* ---- ends ---- */

static void remember(struct model *model, const struct model_job *job, int64_t window_ms)
{
    struct model_memory memory = {.until = after(model, window_ms, window_ms)};

    memcpy(memory.topic, job->topic, sizeof memory.topic);
    memcpy(memory.id, job->id, sizeof memory.id);
    model->memories =
        model_grow(model->memories, model->memory_count, &model->memory_cap, sizeof memory);
    model->memories[model->memory_count++] = memory;
}

void model_finish(struct model *model, struct model_job *job, enum model_end end)
{
    struct model_topic *topic = model_find_topic(model, slice_of(job->topic));

    topic->totals.acked += end == MODEL_ACKED;
    topic->totals.expired += end == MODEL_EXPIRED;
    topic->totals.cancelled += end == MODEL_CANCELLED || end == MODEL_PURGED;
    if (end != MODEL_PURGED && topic->settings.dedup_window_ms)
        remember(model, job, topic->settings.dedup_window_ms);
    free(job->bytes);
    *job = model->jobs[--model->job_count];
}

/* A topic without an extension has nobody who wants to know. */
static void tell_death(struct model *model, const struct model_job *job)
{
    if (model_find_topic(model, slice_of(job->topic))->settings.extension.len)
        model_tell(model, QUEUE_EVENT_DEAD, job->topic);
}

static void die(struct model *model, struct model_job *job)
{
    job->state = JOB_DEAD;
    model_find_topic(model, slice_of(job->topic))->totals.died++;
    tell_death(model, job);
}

static void add_history(struct model *model, struct model_job *job, enum job_outcome outcome,
                        struct slice error)
{
    struct model_attempt attempt = {
        .attempt = job->attempt, .started_ms = job->taken_ms, .outcome = outcome};

    attempt.duration = exactly(model->now_ms - job->taken_ms);
    if (outcome == JOB_OUTCOME_LEASE_ENDED)
        attempt.duration = (struct span){job->lease_until.least_ms - job->taken_ms,
                                         job->lease_until.most_ms - job->taken_ms};
    attempt.error_bytes = error.len < sizeof attempt.error ? error.len : sizeof attempt.error;
    if (attempt.error_bytes)
        memcpy(attempt.error, error.at, attempt.error_bytes);
    if (job->history_count == JOB_HISTORY_MAX)
        memmove(job->history, job->history + 1, --job->history_count * sizeof *job->history);
    job->history[job->history_count++] = attempt;
}

static void fail(struct model *model, struct model_job *job, enum job_outcome outcome,
                 int64_t delay_ms, struct slice error)
{
    struct policy policy = policy_of(model, job);

    add_history(model, job, outcome, error);
    set_error(job, error);
    if (job->attempt >= policy.max_attempts || outcome == JOB_OUTCOME_REFUSED) {
        die(model, job);
        return;
    }
    job->due_is_first = false;
    if (delay_ms < 0)
        set_due(model, job, backoff_to_due(model, &policy, job->attempt));
    else
        set_due(model, job, after(model, delay_ms, delay_ms));
}

static void expire(struct model *model, struct model_job *job)
{
    struct model_topic *topic = model_find_topic(model, slice_of(job->topic));

    if (!topic->settings.dead_letter_expired) {
        model_finish(model, job, MODEL_EXPIRED);
        return;
    }
    set_error(job, slice_of("expired"));
    die(model, job);
}

/* ---- time goes on ---- */

static bool has_expired(struct model *model, const struct model_job *job)
{
    int64_t ttl_ms = policy_of(model, job).ttl_ms;

    return job->state == JOB_READY && ttl_ms && job->first_due.most_ms + ttl_ms <= model->now_ms;
}

/* False: it is gone, and another job stands in its place. */
static bool advance_one(struct model *model, struct model_job *job)
{
    size_t before = model->job_count;

    if (job->state == JOB_LEASED && job->lease_until.most_ms <= model->now_ms) {
        model_find_topic(model, slice_of(job->topic))->totals.lease_ended++;
        fail(model, job, JOB_OUTCOME_LEASE_ENDED, -1, slice_of("lease ended"));
    }
    if (job->state == JOB_DELAYED && job->due.most_ms <= model->now_ms)
        job->state = JOB_READY;
    if (has_expired(model, job))
        expire(model, job);
    return model->job_count == before;
}

void model_advance(struct model *model, int64_t now_ms)
{
    assert(now_ms >= model->now_ms);
    model->now_ms = now_ms;
    for (size_t i = 0; i < model->job_count;)
        if (advance_one(model, &model->jobs[i]))
            i++;
    for (size_t i = model->memory_count; i-- > 0;)
        if (model->memories[i].until.most_ms <= now_ms)
            forget(model, &model->memories[i]);
}

/* ---- push ---- */

static void show(const struct model_job *job, enum queue_status status, struct model_result *out)
{
    out->status = status;
    out->state = job->state;
    out->has_due = job->state == JOB_DELAYED || job->state == JOB_READY;
    out->due = job->due;
}

/* QUEUE_OK: nothing in the way. */
static enum queue_status meet_existing(const struct model_job *job,
                                       enum record_conflict on_conflict)
{
    if (on_conflict == CONFLICT_KEEP)
        return QUEUE_EXISTED;
    if (on_conflict == CONFLICT_REJECT)
        return QUEUE_CONFLICT;
    return job->state == JOB_LEASED ? QUEUE_LEASED : QUEUE_OK;
}

static struct model_job *add_job(struct model *model, struct slice topic, struct slice id)
{
    struct model_job *job;

    model->jobs = model_grow(model->jobs, model->job_count, &model->job_cap, sizeof *model->jobs);
    job = &model->jobs[model->job_count++];
    *job = (struct model_job){0};
    memcpy(job->topic, topic.at, topic.len);
    memcpy(job->id, id.at, id.len);
    return job;
}

static bool is_known(struct model *model, const struct queue_push *push, bool seems_known)
{
    struct model_memory *memory = find_memory(model, push->topic, push->id);

    if (!memory)
        return false;
    if (model->now_ms < memory->until.least_ms || seems_known)
        return true;
    forget(model, memory);
    return false;
}

static int32_t priority_of(const struct queue_push *push, const struct topic_settings *settings)
{
    if (push->priority != QUEUE_PRIORITY_UNSET)
        return push->priority;
    return settings->has_priority ? settings->priority : JOB_PRIORITY;
}

void model_push(struct model *model, const struct queue_push *push, bool seems_known,
                struct model_result *out)
{
    const char *detail;
    struct model_topic *topic = NULL;
    struct model_job *job;

    *out = (struct model_result){0};
    out->status = queue_check_push(push, model->body_bytes_max, &detail);
    if (!out->status && is_too_far(model, &push->when))
        out->status = QUEUE_BAD_OPTION;
    if (!out->status && !(topic = model_need_topic(model, push->topic)))
        out->status = QUEUE_TOO_MANY_TOPICS;
    if (out->status)
        return;
    if (is_known(model, push, seems_known)) {
        out->status = QUEUE_EXISTED;
        return;
    }
    job = model_find(model, push->topic, push->id);
    if (job) {
        out->status =
            meet_existing(job, push->on_conflict ? push->on_conflict : topic->settings.on_conflict);
        if (out->status) {
            show(job, out->status, out);
            return;
        }
    }
    out->status = job ? QUEUE_REPLACED : QUEUE_CREATED;
    topic->totals.pushed += !job;
    topic->totals.replaced += job != NULL;
    if (!job)
        job = add_job(model, push->topic, push->id);
    set_bytes(job, push);
    set_error(job, push->past.error);
    job->attempt = push->past.attempt;
    job->delivery = 0;
    job->history_count = 0;
    job->priority = (uint16_t)priority_of(push, &topic->settings);
    job->policy = push->policy;
    job->sequence = ++model->sequence;
    job->due_is_first = true;
    set_due(model, job, when_to_due(model, &push->when));
    if (push->past.dead) {
        job->state = JOB_DEAD;
        tell_death(model, job);
    }
    show(job, out->status, out);
}

/* ---- change ---- */

static void reschedule(struct model *model, struct model_job *job,
                       const struct queue_change *change)
{
    if (change->priority != QUEUE_PRIORITY_UNSET)
        job->priority = (uint16_t)change->priority;
    if (change->when.due == QUEUE_DUE_UNCHANGED)
        return;
    job->due_is_first = true;
    set_due(model, job, when_to_due(model, &change->when));
}

void model_change(struct model *model, const struct queue_change *change, struct model_result *out)
{
    const struct queue_change now = {.when.due = QUEUE_DUE_NOW, .priority = QUEUE_PRIORITY_UNSET};
    const char *detail;
    struct model_job *job = model_find(model, change->topic, change->id);

    *out = (struct model_result){0};
    out->status = queue_check_change(change, &detail);
    if (out->status)
        return;
    if (!job) {
        out->status = QUEUE_NOT_FOUND;
    } else if (change->only_dead && (job->state != JOB_DEAD || job->delivery != change->delivery)) {
        show(job, QUEUE_CONFLICT, out);
    } else if (job->state == JOB_LEASED) {
        out->status = QUEUE_LEASED;
        out->state = JOB_LEASED;
    } else if (change->verb == QUEUE_CANCEL) {
        out->status = QUEUE_CANCELLED;
        model_finish(model, job, MODEL_CANCELLED);
    } else if (job->state == JOB_DEAD) {
        out->status = QUEUE_DEAD_STATE;
        out->state = JOB_DEAD;
    } else if (change->verb == QUEUE_RESCHEDULE && is_too_far(model, &change->when)) {
        out->status = QUEUE_BAD_OPTION;
    } else {
        if (change->verb == QUEUE_RESCHEDULE)
            reschedule(model, job, change);
        else if (job->state == JOB_DELAYED)
            reschedule(model, job, &now);
        show(job, QUEUE_OK, out);
    }
}

/* ---- take and answer ---- */

static bool is_served_before(const struct model_job *a, const struct model_job *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return model_listed_before(a, b);
}

bool model_may_take(struct model *model, const struct model_job *job)
{
    return job->state == JOB_READY && !model_find_topic(model, slice_of(job->topic))->paused;
}

struct model_job *model_next_ready(struct model *model, struct slice topic)
{
    struct model_job *best = NULL;

    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *job = &model->jobs[i];

        if (slice_is(topic, job->topic) && model_may_take(model, job) &&
            (!best || is_served_before(job, best)))
            best = job;
    }
    return best;
}

void model_lease(struct model *model, struct model_job *job, int64_t lease_ms)
{
    assert(job->state == JOB_READY);
    job->taken_ms = model->now_ms;
    job->lease_ms = lease_ms ? lease_ms : policy_of(model, job).lease_ms;
    job->lease_until = after(model, job->lease_ms, job->lease_ms);
    job->lease_ms_is_past = false;
    job->state = JOB_LEASED;
    job->attempt++;
    model_find_topic(model, slice_of(job->topic))->totals.delivered++;
}

void model_restart(struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++)
        model->jobs[i].lease_ms_is_past = true;
}

static struct model_job *find_lease(struct model *model, struct slice lease)
{
    for (size_t i = 0; i < model->job_count; i++)
        if (model->jobs[i].state == JOB_LEASED && slice_is(lease, model->jobs[i].lease))
            return &model->jobs[i];
    return NULL;
}

static void extend(struct model *model, struct model_job *job, int64_t lease_ms,
                   struct model_result *out)
{
    int64_t other_ms = lease_ms;

    if (!lease_ms) {
        lease_ms = job->lease_ms;
        other_ms = job->lease_ms_is_past ? policy_of(model, job).lease_ms : lease_ms;
    }
    job->lease_until =
        lease_ms < other_ms ? after(model, lease_ms, other_ms) : after(model, other_ms, lease_ms);
    out->lease_until = job->lease_until;
    out->has_lease_until = true;
}

/* The delivery never reached anybody: its attempt does not count. */
static void give_back(struct model *model, struct model_job *job, int64_t delay_ms)
{
    job->attempt--;
    job->state = JOB_READY;
    if (delay_ms <= 0)
        return;
    job->due_is_first = false;
    set_due(model, job, after(model, delay_ms, delay_ms));
}

void model_answer(struct model *model, const struct queue_answer *answer, struct model_result *out)
{
    const char *detail;
    struct model_job *job = find_lease(model, answer->lease);

    *out = (struct model_result){0};
    out->status = queue_check_answer(answer, &detail);
    if (!out->status && !job)
        out->status = QUEUE_LEASE_ENDED;
    if (out->status)
        return;
    memcpy(out->id, job->id, sizeof out->id);
    switch (answer->verb) {
    case QUEUE_ACK:
        model_finish(model, job, MODEL_ACKED);
        return;
    case QUEUE_NACK:
        model_find_topic(model, slice_of(job->topic))->totals.nacked++;
        fail(model, job, answer->final ? JOB_OUTCOME_REFUSED : JOB_OUTCOME_FAILED, answer->delay_ms,
             answer->error);
        break;
    case QUEUE_EXTEND:
        extend(model, job, answer->lease_ms, out);
        break;
    case QUEUE_RETURN:
        give_back(model, job, answer->delay_ms);
        break;
    }
    show(job, QUEUE_OK, out);
}
