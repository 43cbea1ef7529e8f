#include "job/section.h"

#include <assert.h>

enum job_section job_section_of(enum job_state state, uint32_t attempt, bool due_is_wall)
{
    switch (state) {
    case JOB_LEASED:
        return SECTION_LEASED;
    case JOB_DEAD:
        return SECTION_DEAD;
    case JOB_FINISHED:
        return SECTION_REMEMBERED;
    case JOB_DELAYED:
    case JOB_READY:
        break;
    }
    if (attempt)
        return due_is_wall ? SECTION_RETRYING_WALL : SECTION_RETRYING;
    return due_is_wall ? SECTION_DELAYED_WALL : SECTION_DELAYED;
}

enum job_section job_section_of_record(const struct record *record, int64_t skew_ms,
                                       int64_t *when_ms)
{
    if (record->kind == RECORD_DONE) {
        bool is_kept = record->done.keep_until_ms;
        *when_ms = is_kept ? record->done.keep_until_ms : record->done.remember_until_ms;
        return is_kept ? SECTION_KEPT : SECTION_REMEMBERED;
    }
    assert(record->kind == RECORD_JOB);
    const struct job *job = &record->job;
    enum job_section section = job_section_of(job->state, job->attempt, job->due_is_wall);
    struct job_batch batch;
    if (__builtin_expect(job->batch.len != 0, 0) && job->state == JOB_DELAYED &&
        job_batch_decode(job->batch, &batch) && batch.waits)
        section = SECTION_LEASED;
    *when_ms = section == SECTION_LEASED ? 0 : job->due_ms;
    if (section == SECTION_DEAD && !job->due_is_wall)
        *when_ms += skew_ms;
    if (*when_ms < 0)
        *when_ms = 0;
    return section;
}
