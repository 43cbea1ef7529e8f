#include "job/part.h"

#include <assert.h>

enum job_part job_part_of(enum job_state state, uint32_t attempt, bool due_is_wall)
{
    switch (state) {
    case JOB_LEASED:
        return PART_LEASED;
    case JOB_DEAD:
        return PART_DEAD;
    case JOB_FINISHED:
        return PART_REMEMBERED;
    case JOB_DELAYED:
    case JOB_READY:
        break;
    }
    if (attempt)
        return due_is_wall ? PART_RETRYING_WALL : PART_RETRYING;
    return due_is_wall ? PART_DELAYED_WALL : PART_DELAYED;
}

enum job_part job_part_of_record(const struct record *record, int64_t skew_ms, int64_t *when_ms)
{
    if (record->kind == RECORD_DONE) {
        *when_ms = record->done.remember_until_ms;
        return PART_REMEMBERED;
    }
    assert(record->kind == RECORD_JOB);
    const struct job *job = &record->job;
    enum job_part part = job_part_of(job->state, job->attempt, job->due_is_wall);
    *when_ms = part == PART_LEASED ? 0 : job->due_ms;
    if (part == PART_DEAD && !job->due_is_wall)
        *when_ms += skew_ms;
    if (*when_ms < 0)
        *when_ms = 0;
    return part;
}
