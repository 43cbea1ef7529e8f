/* Takes of the model, and what becomes of leases. */
#include "model_private.h"

#include "queue/door.h"

#include <assert.h>

bool model_served_before(const struct model_job *a, const struct model_job *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return model_listed_before(a, b);
}

bool model_is_takeable(struct model *model, const struct model_job *job)
{
    return job->state == JOB_READY && !model_find_topic(model, slice_of(job->topic))->paused;
}

struct model_job *model_first_ready_of_topic(struct model *model, struct slice topic)
{
    struct model_job *best = NULL;

    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *job = &model->jobs[i];

        if (slice_is(topic, job->topic) && model_is_takeable(model, job) &&
            (!best || model_served_before(job, best)))
            best = job;
    }
    return best;
}

struct model_job *model_first_ready_of_topics(struct model *model, const struct slice *topics,
                                              size_t count)
{
    struct model_job *best = NULL;

    for (size_t i = 0; i < count; i++) {
        struct model_job *job = model_first_ready_of_topic(model, topics[i]);

        if (job && (!best || model_served_before(job, best)))
            best = job;
    }
    return best;
}

enum queue_status model_pick(struct model *model, struct slice topic, struct slice id,
                             struct model_job **out)
{
    struct model_job *job = model_find(model, topic, id);

    if (!job)
        return QUEUE_NOT_FOUND;
    if (job->state == JOB_LEASED)
        return QUEUE_LEASED;
    if (job->state != JOB_READY) {
        job->due_is_first = true;
        model_set_due(model, job, model_exactly(model->now_ms));
    }
    *out = job;
    return QUEUE_OK;
}

void model_look(struct model *model, const struct queue_find *find, struct model_result *out)
{
    const struct model_job *job = model_find(model, find->topic, find->id);

    *out = (struct model_result){.status = QUEUE_NOT_FOUND};
    if (!job)
        return;
    model_show(job, QUEUE_OK, out);
}

void model_lease(struct model *model, struct model_job *job, int64_t lease_ms,
                 struct slice consumer)
{
    assert(job->state == JOB_READY && consumer.len < sizeof job->consumer);
    memset(job->consumer, 0, sizeof job->consumer);
    if (consumer.len)
        memcpy(job->consumer, consumer.at, consumer.len);
    job->cancel_requested = false;
    job->taken_ms = model->now_ms;
    job->lease_ms = lease_ms ? lease_ms : model_policy_of(model, job).lease_ms;
    job->lease_until = model_after(model, job->lease_ms, job->lease_ms);
    job->restarted_since_take = false;
    job->state = JOB_LEASED;
    job->attempt++;
    model_find_topic(model, slice_of(job->topic))->totals.delivered++;
}

void model_restart(struct model *model)
{
    for (size_t i = 0; i < model->job_count; i++)
        model->jobs[i].restarted_since_take = true;
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
    int64_t least_ms = lease_ms ? lease_ms : job->lease_ms, most_ms = least_ms;

    if (!lease_ms && job->restarted_since_take) {
        int64_t policy_ms = model_policy_of(model, job).lease_ms;
        least_ms = policy_ms < least_ms ? policy_ms : least_ms;
        most_ms = policy_ms > most_ms ? policy_ms : most_ms;
    }
    job->lease_until = model_after(model, least_ms, most_ms);
    out->lease_until = job->lease_until;
    out->has_lease_until = true;
    out->cancel_requested = job->cancel_requested;
}

/* Returns a job whose delivery never reached a consumer: its attempt does not count. */
static void give_back(struct model *model, struct model_job *job, int64_t delay_ms)
{
    job->attempt--;
    job->state = JOB_READY;
    if (delay_ms <= 0)
        return;
    job->due_is_first = false;
    model_set_due(model, job, model_after(model, delay_ms, delay_ms));
}

void model_answer(struct model *model, const struct queue_answer *answer, struct model_result *out)
{
    const char *detail;
    struct model_job *job = find_lease(model, answer->lease);

    *out = (struct model_result){0};
    out->status = queue_check_answer(answer, model->body_bytes_max, &detail);
    if (!out->status && !job)
        out->status = QUEUE_LEASE_ENDED;
    if (!out->status && answer->verb == QUEUE_AGAIN &&
        model_is_too_far(model, &answer->again->when))
        out->status = QUEUE_BAD_OPTION;
    if (out->status)
        return;
    memcpy(out->id, job->id, sizeof out->id);
    if (job->cancel_requested && (answer->verb == QUEUE_NACK || answer->verb == QUEUE_RETURN ||
                                  answer->verb == QUEUE_AGAIN)) {
        out->status = QUEUE_CANCELLED;
        if (!model_start_next(model, job, RECORD_NEXT_AFTER_CANCEL))
            model_finish(model, job, MODEL_CANCELLED);
        return;
    }
    if (job->next && answer->verb != QUEUE_EXTEND) {
        (void)model_start_next(model, job,
                               answer->verb == QUEUE_NACK     ? RECORD_NEXT_AFTER_NACK
                               : answer->verb == QUEUE_RETURN ? RECORD_NEXT_AFTER_RETURN
                                                              : RECORD_NEXT_AFTER_ACK);
        model_show(job, answer->verb == QUEUE_AGAIN ? QUEUE_REPLACED : QUEUE_OK, out);
        return;
    }
    switch (answer->verb) {
    case QUEUE_ACK:
        model_finish(model, job, MODEL_ACKED);
        return;
    case QUEUE_NACK:
        model_find_topic(model, slice_of(job->topic))->totals.nacked++;
        if (answer->has_priority)
            job->priority = answer->priority;
        model_fail(model, job, answer->final ? JOB_OUTCOME_REFUSED : JOB_OUTCOME_FAILED,
                   answer->delay_ms, answer->error);
        break;
    case QUEUE_EXTEND:
        extend(model, job, answer->lease_ms, out);
        break;
    case QUEUE_RETURN:
        give_back(model, job, answer->delay_ms);
        break;
    case QUEUE_AGAIN:
        model_again(model, job, answer->again);
        model_show(job, QUEUE_CREATED, out);
        return;
    }
    model_show(job, QUEUE_OK, out);
}
