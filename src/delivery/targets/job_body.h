/* job_body: the whole job as JSON, which a topic may send instead of its body (setting.h, `body`).
 * Pure.
 *
 *   {"topic":"orders","id":"42","attempt":1,"due_at":"2026-11-21T09:00:00.000Z","priority":100,
 *    "content_type":"application/json","meta":{"kind":"paid"},"body":{"total":12}} */
#ifndef TARRY_TARGETS_JOB_BODY_H
#define TARRY_TARGETS_JOB_BODY_H

#include "base/buffer.h"
#include "job/job.h"

/* Appends the job; `body` and `content_type` are formatted as in the API. Out of memory sets the
 * failure flag of `out`. */
void target_job_body_write(struct buffer *out, const struct job *job);
/* Returns the maximum size of the JSON. */
size_t target_job_body_bytes_max(const struct job *job);

#endif
