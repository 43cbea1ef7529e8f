/* The model's times: when a job is due, as a span where the promise leaves room. */
#include "model_private.h"

bool span_holds(struct span span, int64_t ms)
{
    return span.least_ms <= ms && ms <= span.most_ms;
}

struct span model_exactly(int64_t ms)
{
    return (struct span){ms, ms};
}

struct span model_after(const struct model *model, int64_t least_ms, int64_t most_ms)
{
    if (most_ms == 0)
        return model_exactly(model->now_ms);
    return (struct span){model->now_ms + least_ms, model->now_ms + most_ms + 1};
}

struct span model_when_to_due(const struct model *model, const struct queue_when *when)
{
    if (when->due == QUEUE_DUE_DELAY)
        return model_after(model, when->ms, when->ms);
    if (when->due == QUEUE_DUE_AT && when->ms > model->now_ms)
        return model_exactly(when->ms);
    return model_exactly(model->now_ms);
}

bool model_is_too_far(const struct model *model, const struct queue_when *when)
{
    return when->due == QUEUE_DUE_AT && when->ms - model->now_ms > POLICY_DELAY_MS_MAX;
}

struct span model_backoff_to_due(const struct model *model, const struct policy *policy,
                                 uint32_t attempt)
{
    int64_t wait_ms = policy->backoff.first_ms, spread_ms;

    if (policy->backoff.kind == BACKOFF_NONE)
        return model_exactly(model->now_ms);
    if (policy->backoff.kind == BACKOFF_LIST) {
        uint32_t last = policy->backoff.step_count;

        wait_ms = policy->backoff.steps_ms[attempt < last ? attempt - 1 : last - 1];
        spread_ms = wait_ms * POLICY_JITTER_PERCENT / 100;
        return model_after(model, wait_ms - spread_ms, wait_ms + spread_ms);
    }
    for (uint32_t i = 1; i < attempt && policy->backoff.kind == BACKOFF_EXPONENTIAL; i++)
        if (wait_ms < policy->backoff.max_ms)
            wait_ms *= 2;
    if (wait_ms > policy->backoff.max_ms)
        wait_ms = policy->backoff.max_ms;
    spread_ms = wait_ms * POLICY_JITTER_PERCENT / 100;
    return model_after(model, wait_ms - spread_ms, wait_ms + spread_ms);
}

void model_set_due(struct model *model, struct model_job *job, struct span due)
{
    job->due = due;
    job->state = due.most_ms <= model->now_ms ? JOB_READY : JOB_DELAYED;
    if (job->due_is_first)
        job->first_due = due;
}

void model_pin_due(struct model_job *job, int64_t due_ms)
{
    job->due = model_exactly(due_ms);
    if (job->due_is_first)
        job->first_due = job->due;
}
