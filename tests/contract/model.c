/* The model's jobs, and what time does to them. */
#include "model_private.h"

#include <assert.h>
#include <stdlib.h>

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
        model_free(&model->jobs[i]);
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

struct policy model_policy_of(struct model *model, const struct model_job *job)
{
    return policy_resolve(&job->policy,
                          &model_find_topic(model, slice_of(job->topic))->settings.policy);
}

void model_set_error(struct model_job *job, struct slice error)
{
    job->error_bytes = error.len < sizeof job->error ? error.len : sizeof job->error;
    if (job->error_bytes)
        memcpy(job->error, error.at, job->error_bytes);
}

void model_show(const struct model_job *job, enum queue_status status, struct model_result *out)
{
    out->status = status;
    out->state = job->state;
    out->has_due = job->state == JOB_DELAYED || job->state == JOB_READY;
    out->due = job->due;
}

/* ---- time advances ---- */

static bool has_expired(struct model *model, const struct model_job *job)
{
    int64_t ttl_ms = model_policy_of(model, job).ttl_ms;

    return job->state == JOB_READY && ttl_ms && job->first_due.most_ms + ttl_ms <= model->now_ms;
}

/* Returns false if the job was removed: then another job has its index. */
static bool advance_one(struct model *model, struct model_job *job)
{
    size_t before = model->job_count;

    if (job->state == JOB_LEASED && job->lease_until.most_ms <= model->now_ms &&
        job->cancel_requested) {
        if (!model_start_next(model, job, RECORD_NEXT_AFTER_CANCEL)) {
            model_finish(model, job, MODEL_CANCELLED);
            return false;
        }
    }
    if (job->state == JOB_LEASED && job->lease_until.most_ms <= model->now_ms)
        (void)model_start_next(model, job, RECORD_NEXT_AFTER_LEASE);
    if (job->state == JOB_LEASED && job->lease_until.most_ms <= model->now_ms) {
        model_find_topic(model, slice_of(job->topic))->totals.lease_ended++;
        model_fail(model, job, JOB_OUTCOME_LEASE_ENDED, -1, slice_of("lease ended"));
    }
    if (job->state == JOB_DELAYED && job->due.most_ms <= model->now_ms)
        job->state = JOB_READY;
    if (has_expired(model, job))
        model_expire(model, job);
    return model->job_count == before;
}

void model_advance(struct model *model, int64_t now_ms)
{
    assert(now_ms >= model->now_ms);
    model->now_ms = now_ms;
    for (size_t i = 0; i < model->topic_count; i++) {
        struct model_topic *topic = &model->topics[i];

        if (topic->paused_until.most_ms && topic->paused_until.most_ms <= now_ms) {
            topic->paused = false;
            topic->paused_until = (struct span){0};
        }
    }
    for (size_t i = 0; i < model->job_count;)
        if (advance_one(model, &model->jobs[i]))
            i++;
    model_forget_old(model);
}
