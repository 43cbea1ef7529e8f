/* job_json: a job, and results, as JSON. Pure. */
#ifndef TARRY_HTTP_JOB_JSON_H
#define TARRY_HTTP_JOB_JSON_H

#include "base/buffer.h"
#include "queue/queue.h"

enum http_view {
    HTTP_VIEW_TAKEN = 1,   /* with lease and body */
    HTTP_VIEW_TAKEN_EXACT, /* the same with the body in base64 */
    HTTP_VIEW_WHOLE,       /* with state, settings of its own and body */
    HTTP_VIEW_LISTED,      /* the same without body */
    HTTP_VIEW_EXACT        /* the same with the body in base64 */
};

void http_job_write(struct buffer *out, const struct queue_job *job, enum http_view view);

/* `"topic":…,"id":…,"result":…` and what else the result holds, without braces. */
void http_result_members_write(struct buffer *out, const struct queue_result *result);

/* `,"lease_for":…` and what else is set. */
void http_policy_write(struct buffer *out, const struct policy *policy);

#endif
