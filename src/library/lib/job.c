/* Accessors of a job that the caller owns. */
#include "lib/state.h"

static const struct job *shown(const tarry_job *job)
{
    return &((const struct memory_job *)(const void *)job)->shown.job;
}

static const void *bytes_of(struct slice slice, size_t *bytes)
{
    if (bytes)
        *bytes = slice.len;
    return slice.len ? slice.at : "";
}

const char *tarry_job_topic(const tarry_job *job)
{
    return shown(job)->topic.at;
}

const char *tarry_job_id(const tarry_job *job)
{
    return shown(job)->id.at;
}

const void *tarry_job_body(const tarry_job *job, size_t *bytes)
{
    return bytes_of(shown(job)->body, bytes);
}

const char *tarry_job_content_type(const tarry_job *job)
{
    return shown(job)->content_type.at;
}

const char *tarry_job_meta(const tarry_job *job, size_t *bytes)
{
    return bytes_of(shown(job)->meta, bytes);
}

const char *tarry_job_error(const tarry_job *job, size_t *bytes)
{
    return bytes_of(shown(job)->error, bytes);
}

/* Returns the lease as text. It is written on request only, since most consumers answer with the
 * job itself. */
const char *tarry_job_lease(tarry_job *job)
{
    struct memory_job *mine = (struct memory_job *)(void *)job;
    if (mine->shown.job.state != JOB_LEASED || !mine->is_taken)
        return "";
    if (!mine->shown.lease.len)
        memory_job_lease(mine);
    return mine->lease_text;
}

const char *tarry_job_consumer(const tarry_job *job, size_t *bytes)
{
    return bytes_of(shown(job)->consumer, bytes);
}

const char *tarry_job_group(const tarry_job *job, size_t *bytes)
{
    return bytes_of(shown(job)->group, bytes);
}

int tarry_job_cancel_requested(const tarry_job *job)
{
    return shown(job)->cancel_requested;
}

int tarry_job_state(const tarry_job *job)
{
    return (int)shown(job)->state;
}

uint32_t tarry_job_attempt(const tarry_job *job)
{
    return shown(job)->attempt;
}

uint64_t tarry_job_delivery(const tarry_job *job)
{
    return shown(job)->delivery;
}

int32_t tarry_job_priority(const tarry_job *job)
{
    return shown(job)->priority;
}

int64_t tarry_job_due_ms(const tarry_job *job)
{
    return shown(job)->due_ms;
}

int64_t tarry_job_lease_until_ms(const tarry_job *job)
{
    return shown(job)->lease_until_ms;
}

int tarry_job_history(const tarry_job *job, size_t index, struct tarry_attempt *out)
{
    struct job_attempt attempt;
    size_t at = 0, stride = lib_stride(out, offsetof(struct tarry_attempt, error));
    if (!stride)
        return TARRY_BAD_OPTION;
    for (size_t i = 0; i <= index; i++)
        if (!job_history_next(shown(job)->history, &at, &attempt))
            return TARRY_NOT_FOUND;
    struct tarry_attempt copy = {.size = (uint32_t)stride,
                                 .number = attempt.attempt,
                                 .started_ms = attempt.started_ms,
                                 .duration_ms = attempt.duration_ms,
                                 .outcome = (int32_t)attempt.outcome,
                                 .error_bytes = (uint32_t)attempt.error.len,
                                 .error = attempt.error.at};
    memcpy(out, &copy, stride < sizeof copy ? stride : sizeof copy);
    return TARRY_OK;
}

const char *tarry_job_progress(const tarry_job *job, size_t *bytes)
{
    return bytes_of(shown(job)->progress, bytes);
}

/* Returns how the job ended; all zero if it did not. */
static struct queue_end end_of(const tarry_job *job)
{
    const struct queue_end *end = ((const struct memory_job *)(const void *)job)->shown.end;
    return end ? *end : (struct queue_end){0};
}

int tarry_job_outcome(const tarry_job *job)
{
    return (int)end_of(job).outcome;
}

int64_t tarry_job_finished_ms(const tarry_job *job)
{
    return end_of(job).finished_ms;
}

int64_t tarry_job_duration_ms(const tarry_job *job)
{
    return end_of(job).duration_ms;
}

const void *tarry_job_result(const tarry_job *job, size_t *bytes)
{
    return bytes_of(end_of(job).result, bytes);
}

const char *tarry_job_result_type(const tarry_job *job)
{
    const char *type = end_of(job).result_type.at;
    return type ? type : "";
}

void tarry_job_free(tarry_job *job)
{
    memory_job_free((struct memory_job *)(void *)job);
}
