/* The result of a push, in the model. */
#include "model_private.h"

#include "queue/door.h"

#include <assert.h>
#include <stdlib.h>

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
    job->content_type = slice_make(bytes, type_bytes);
    job->meta = slice_make(bytes + type_bytes, meta_bytes);
    job->body = slice_make(bytes + type_bytes + meta_bytes, push->body.len);
    free(job->bytes); /* the push may point into it */
    job->bytes = bytes;
}

/* QUEUE_OK: nothing in the way. */
static enum queue_status meet_existing(const struct model_job *job,
                                       enum record_conflict on_conflict)
{
    if (on_conflict == CONFLICT_KEEP)
        return QUEUE_EXISTED;
    if (on_conflict == CONFLICT_REJECT)
        return QUEUE_CONFLICT;
    if (on_conflict == CONFLICT_AFTER)
        return QUEUE_OK;
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

static int32_t priority_of(const struct queue_push *push, const struct topic_settings *settings)
{
    if (push->priority != QUEUE_PRIORITY_UNSET)
        return push->priority;
    return settings->has_priority ? settings->priority : JOB_PRIORITY;
}

/* QUEUE_OK: it may come, into `*topic`. */
static enum queue_status check_push(struct model *model, const struct queue_push *push,
                                    struct model_topic **topic)
{
    const char *detail;
    enum queue_status status = queue_check_push(push, model->body_bytes_max, &detail);

    if (status)
        return status;
    if (model_is_too_far(model, &push->when))
        return QUEUE_BAD_OPTION;
    *topic = model_need_topic(model, push->topic);
    return *topic ? QUEUE_OK : QUEUE_TOO_MANY_TOPICS;
}

static bool is_full(const struct model *model, const struct model_topic *topic)
{
    struct queue_counts counts = model_count(model, topic->name);
    uint64_t count = counts.delayed + counts.retrying + counts.ready + counts.leased + counts.dead;
    uint64_t shards = model->shards ? model->shards : 1;
    uint64_t share = (topic->settings.max_jobs + shards - 1) / shards;
    if (!share)
        return false;
    return count >= share && (shards == 1 || model->seems_full);
}

static void fill(struct model *model, struct model_job *job, const struct queue_push *push,
                 const struct topic_settings *settings)
{
    set_bytes(job, push);
    model_set_error(job, push->past.error);
    job->attempt = push->past.attempt;
    job->delivery = 0;
    job->history_count = 0;
    job->priority = (uint16_t)priority_of(push, settings);
    job->policy = push->policy;
    job->sequence = ++model->sequence;
    job->due_is_first = true;
    model_set_due(model, job, model_when_to_due(model, &push->when));
    if (push->past.dead) {
        job->state = JOB_DEAD;
        model_report_death(model, job);
    }
}

/* Stores the push as the successor of the leased job, in place of an earlier one. */
static void succeed(struct model *model, struct model_topic *topic, struct model_job *job,
                    const struct queue_push *push, struct model_result *out)
{
    struct queue_push plain = *push;

    out->status = job->next ? QUEUE_REPLACED : QUEUE_CREATED;
    if (job->next)
        model_free(job->next);
    else
        job->next = malloc(sizeof *job->next);
    assert(job->next);
    *job->next = (struct model_job){0};
    memcpy(job->next->topic, job->topic, sizeof job->topic);
    memcpy(job->next->id, job->id, sizeof job->id);
    plain.past = (struct queue_past){0};
    fill(model, job->next, &plain, &topic->settings);
    model_remember_once(model, push);
    out->state = JOB_LEASED;
    out->has_due = true;
    out->due = job->next->due;
}

/* Adds the pushed job, or replaces `job`. */
static void let_in(struct model *model, struct model_topic *topic, struct model_job *job,
                   const struct queue_push *push, struct model_result *out)
{
    enum queue_status status = job ? QUEUE_REPLACED : QUEUE_CREATED;

    topic->totals.pushed += !job;
    topic->totals.replaced += job != NULL;
    if (!job)
        job = add_job(model, push->topic, push->id);
    fill(model, job, push, &topic->settings);
    model_remember_once(model, push);
    model_show(job, status, out);
}

void model_again(struct model *model, struct model_job *job, const struct queue_again *again)
{
    struct model_topic *topic = model_find_topic(model, slice_of(job->topic));
    const struct queue_push push = {
        .content_type =
            again->has_body && again->content_type.len ? again->content_type : job->content_type,
        .meta = job->meta,
        .body = again->has_body ? again->body : job->body,
        .when = again->when,
        .priority = again->priority == QUEUE_PRIORITY_UNSET ? job->priority : again->priority,
        .policy = job->policy};

    topic->totals.acked++;
    topic->totals.pushed++;
    fill(model, job, &push, &topic->settings);
}

void model_push(struct model *model, const struct queue_push *push, bool seems_known,
                struct model_result *out)
{
    struct model_topic *topic = NULL;
    struct model_job *job;

    *out = (struct model_result){0};
    out->status = check_push(model, push, &topic);
    if (out->status)
        return;
    if (model_recall(model, push, seems_known)) {
        out->status = QUEUE_EXISTED;
        return;
    }
    job = model_find(model, push->topic, push->id);
    if (job)
        out->status =
            meet_existing(job, push->on_conflict ? push->on_conflict : topic->settings.on_conflict);
    if (!job && is_full(model, topic))
        out->status = QUEUE_TOPIC_FULL;
    else if (out->status)
        model_show(job, out->status, out);
    else if (job && job->state == JOB_LEASED)
        succeed(model, topic, job, push, out);
    else
        let_in(model, topic, job, push, out);
}
