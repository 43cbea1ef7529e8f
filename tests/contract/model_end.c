/* Ends of a job of the model: done, expired, dead; and a failed attempt. */
#include "model_private.h"

#include <stdlib.h>
#include <string.h>

void model_finish(struct model *model, struct model_job *job, enum model_end end)
{
    struct model_topic *topic = model_find_topic(model, slice_of(job->topic));

    topic->totals.acked += end == MODEL_ACKED;
    topic->totals.expired += end == MODEL_EXPIRED;
    topic->totals.cancelled += end == MODEL_CANCELLED || end == MODEL_PURGED;
    if (end != MODEL_PURGED && topic->settings.dedup_window_ms)
        model_remember(model, job, topic->settings.dedup_window_ms);
    model_free(job);
    *job = model->jobs[--model->job_count];
}

void model_free(struct model_job *job)
{
    if (job->next)
        model_free(job->next);
    free(job->next);
    free(job->bytes);
}

bool model_start_next(struct model *model, struct model_job *job, enum record_next after)
{
    struct topic_totals *totals = &model_find_topic(model, slice_of(job->topic))->totals;
    struct model_job *next = job->next;
    bool is_end = after == RECORD_NEXT_AFTER_ACK || after == RECORD_NEXT_AFTER_CANCEL;

    if (!next)
        return false;
    totals->acked += after == RECORD_NEXT_AFTER_ACK;
    totals->cancelled += after == RECORD_NEXT_AFTER_CANCEL;
    totals->nacked += after == RECORD_NEXT_AFTER_NACK;
    totals->lease_ended += after == RECORD_NEXT_AFTER_LEASE;
    totals->pushed += is_end;
    totals->replaced += !is_end;
    next->delivery_floor = job->delivery_floor;
    memcpy(next->lease, job->lease, sizeof next->lease);
    free(job->bytes);
    *job = *next;
    free(next);
    job->state = job->due.most_ms <= model->now_ms ? JOB_READY : JOB_DELAYED;
    return true;
}

void model_report_death(struct model *model, const struct model_job *job)
{
    if (model_find_topic(model, slice_of(job->topic))->settings.extension.len)
        model_report(model, QUEUE_EVENT_DEAD, job->topic);
}

static void die(struct model *model, struct model_job *job)
{
    job->state = JOB_DEAD;
    model_find_topic(model, slice_of(job->topic))->totals.died++;
    model_report_death(model, job);
}

static void add_history(struct model *model, struct model_job *job, enum job_outcome outcome,
                        struct slice error)
{
    struct model_attempt attempt = {
        .attempt = job->attempt, .started_ms = job->taken_ms, .outcome = outcome};

    attempt.duration = model_exactly(model->now_ms - job->taken_ms);
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

void model_fail(struct model *model, struct model_job *job, enum job_outcome outcome,
                int64_t delay_ms, struct slice error)
{
    struct policy policy = model_policy_of(model, job);

    add_history(model, job, outcome, error);
    model_set_error(job, error);
    bool is_used_up =
        policy.max_attempts != POLICY_ATTEMPTS_NONE && job->attempt >= policy.max_attempts;
    if (is_used_up || outcome == JOB_OUTCOME_REFUSED) {
        die(model, job);
        return;
    }
    job->due_is_first = false;
    if (delay_ms < 0)
        model_set_due(model, job, model_backoff_to_due(model, &policy, job->attempt));
    else
        model_set_due(model, job, model_after(model, delay_ms, delay_ms));
}

void model_expire(struct model *model, struct model_job *job)
{
    struct model_topic *topic = model_find_topic(model, slice_of(job->topic));

    if (!topic->settings.dead_letter_expired) {
        model_finish(model, job, MODEL_EXPIRED);
        return;
    }
    model_set_error(job, slice_of("expired"));
    die(model, job);
}
