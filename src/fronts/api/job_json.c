#include "api/job_json.h"

#include "base/json_write.h"
#include "job/json.h"
#include "queue/status.h"

/* Appends a literal, whose length is known at compile time. */
#define PUT(OUT, TEXT) buffer_append((OUT), (TEXT), sizeof(TEXT) - 1)

static void write_time(struct buffer *out, const char *key, int64_t ms)
{
    buffer_append_byte(out, ',');
    json_write_key(out, key);
    json_write_time(out, ms);
}

void api_job_write(struct buffer *out, const struct queue_job *job, enum api_view view)
{
    bool is_taken = view == API_VIEW_TAKEN || view == API_VIEW_TAKEN_EXACT;
    bool is_exact = view == API_VIEW_EXACT || view == API_VIEW_TAKEN_EXACT;
    job_json_write(out, &job->job, job->lease, is_taken ? JOB_FORM_TAKEN : JOB_FORM_KEPT,
                   is_exact                  ? JOB_BODY_EXACT
                   : view == API_VIEW_LISTED ? JOB_BODY_NONE
                                             : JOB_BODY_SHOWN);
}

void api_result_members_write(struct buffer *out, const struct queue_result *result)
{
    PUT(out, "\"topic\":");
    json_write_string(out, result->topic);
    PUT(out, ",\"id\":");
    json_write_string(out, result->id);
    PUT(out, ",\"result\":\"");
    buffer_append_text(out, queue_status_code(result->status));
    buffer_append_byte(out, '"');
    if (result->status == QUEUE_CANCELLED)
        return; /* the recorded state is no longer meaningful */
    if (result->state && result->state != JOB_FINISHED) {
        PUT(out, ",\"state\":\"");
        buffer_append_text(out, job_state_name(result->state));
        buffer_append_byte(out, '"');
    }
    if (result->due_ms)
        write_time(out, "due_at", result->due_ms);
}
