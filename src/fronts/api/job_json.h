/* job_json: jobs and results as JSON. Pure. */
#ifndef TARRY_API_JOB_JSON_H
#define TARRY_API_JOB_JSON_H

#include "base/buffer.h"
#include "queue/queue.h"

enum api_view {
    API_VIEW_TAKEN = 1,   /* with lease and body */
    API_VIEW_TAKEN_EXACT, /* as API_VIEW_TAKEN, with the body in base64 */
    API_VIEW_WHOLE,       /* with state, the job's own settings, and body */
    API_VIEW_LISTED,      /* as API_VIEW_WHOLE, without body */
    API_VIEW_RESULT,      /* as API_VIEW_LISTED, with the result of an end */
    API_VIEW_EXACT,       /* as API_VIEW_WHOLE, with the body in base64 */
    API_VIEW_OUTCOME /* the state, and the outcome and time of an end: nothing that a caller gave the job */
};

void api_job_write(struct buffer *out, const struct queue_job *job, enum api_view view);

/* Writes `"topic":…,"id":…,"result":…` and the other members of the result, without braces. */
void api_result_members_write(struct buffer *out, const struct queue_result *result);

#endif
