/* job_json: jobs and results as JSON. Pure. */
#ifndef TARRY_API_JOB_JSON_H
#define TARRY_API_JOB_JSON_H

#include "base/buffer.h"
#include "queue/queue.h"

enum http_view {
    HTTP_VIEW_TAKEN = 1,   /* with lease and body */
    HTTP_VIEW_TAKEN_EXACT, /* as HTTP_VIEW_TAKEN, with the body in base64 */
    HTTP_VIEW_WHOLE,       /* with state, the job's own settings, and body */
    HTTP_VIEW_LISTED,      /* as HTTP_VIEW_WHOLE, without body */
    HTTP_VIEW_EXACT        /* as HTTP_VIEW_WHOLE, with the body in base64 */
};

void http_job_write(struct buffer *out, const struct queue_job *job, enum http_view view);

/* Writes `"topic":…,"id":…,"result":…` and the other members of the result, without braces. */
void http_result_members_write(struct buffer *out, const struct queue_result *result);

/* Writes `,"lease_for":…` and the other members that are set. */
void http_policy_write(struct buffer *out, const struct policy *policy);

#endif
