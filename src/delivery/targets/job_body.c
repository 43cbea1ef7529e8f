#include "targets/job_body.h"

#include "job/json.h"
#include "targets/target.h"

enum { ESCAPED_BYTES = 6 /* per byte, at most */, AROUND_BYTES = 16 * 1024 };

void target_job_body_write(struct buffer *out, const struct job *job)
{
    job_json_write(out, job, (struct slice){0}, JOB_FORM_SENT, JOB_BODY_SHOWN);
}

size_t target_job_body_bytes_max(const struct job *job)
{
    return ESCAPED_BYTES * (job->body.len + job->meta.len) + AROUND_BYTES;
}
