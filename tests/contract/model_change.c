/* Cancel, reschedule, run now, in the model. */
#include "model_private.h"

#include "queue/door.h"

#include <stdlib.h>

static void reschedule(struct model *model, struct model_job *job,
                       const struct queue_change *change)
{
    if (change->priority != QUEUE_PRIORITY_UNSET)
        job->priority = (uint16_t)change->priority;
    if (change->when.due == QUEUE_DUE_UNCHANGED)
        return;
    job->due_is_first = true;
    model_set_due(model, job, model_when_to_due(model, &change->when));
}

/* Is it in the state, and since the delivery, that the change asks for? */
static bool is_meant(const struct model_job *job, const struct queue_change *change)
{
    if (change->only_dead)
        return job->state == JOB_DEAD && job->delivery == change->delivery;
    return !change->lease.len || ((job->state == JOB_READY || job->state == JOB_DELAYED) &&
                                  slice_is(change->lease, job->lease));
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
    } else if (!is_meant(job, change)) {
        model_show(job, QUEUE_CONFLICT, out);
    } else if (job->state == JOB_LEASED) {
        bool requests = change->verb == QUEUE_CANCEL && change->request;

        job->cancel_requested |= requests;
        if (job->next && change->verb == QUEUE_CANCEL) {
            model_free(job->next);
            free(job->next);
            job->next = NULL;
        }
        out->status = requests ? QUEUE_REQUESTED : QUEUE_LEASED;
        out->state = JOB_LEASED;
    } else if (change->verb == QUEUE_CANCEL) {
        out->status = QUEUE_CANCELLED;
        model_finish(model, job, MODEL_CANCELLED);
    } else if (job->state == JOB_DEAD) {
        out->status = QUEUE_DEAD_STATE;
        out->state = JOB_DEAD;
    } else if (change->verb == QUEUE_RESCHEDULE && model_is_too_far(model, &change->when)) {
        out->status = QUEUE_BAD_OPTION;
    } else {
        if (change->verb == QUEUE_RESCHEDULE)
            reschedule(model, job, change);
        else if (job->state == JOB_DELAYED)
            reschedule(model, job, &now);
        model_show(job, QUEUE_OK, out);
    }
}
