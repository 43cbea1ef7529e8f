#include "api/job_json.h"

#include "base/buffer_put.h"
#include "base/duration.h"
#include "base/json_write.h"
#include "job/json.h"
#include "queue/status.h"

#define PUT BUFFER_PUT

static void write_time(struct buffer *out, const char *key, int64_t ms)
{
    buffer_append_byte(out, ',');
    json_write_key(out, key);
    json_write_time(out, ms);
}

/* Appends `,"outcome":…` and the other members of an end. The result is one of the bodies. */
static void write_end(struct buffer *out, const struct queue_end *end, enum job_form_body form)
{
    if (end->outcome) {
        PUT(out, ",\"outcome\":\"");
        buffer_append_text(out, job_end_name(end->outcome));
        buffer_append_byte(out, '"');
    }
    write_time(out, "finished_at", end->finished_ms);
    if (end->duration_ms) {
        PUT(out, ",\"duration_ms\":");
        buffer_append_i64(out, end->duration_ms);
    }
    if (!end->result.len && !end->omitted_bytes)
        return;
    if (end->result_type.len) {
        PUT(out, ",\"result_type\":");
        json_write_string(out, end->result_type);
    }
    PUT(out, ",\"result_bytes\":");
    buffer_append_u64(out, end->result.len + end->omitted_bytes);
    if (end->result.len)
        job_json_write_bytes(out, "result", end->result_type, end->result, form);
}

/* Writes a job that has ended, with its body and its result in these forms. */
static void write_ended(struct buffer *out, const struct queue_job *job, enum job_form_body form,
                        enum job_form_body result_form)
{
    bool is_finished = job->job.state == JOB_FINISHED;
    bool has_body = is_finished ? job->end->has_body : true;
    if (is_finished && has_body && form != JOB_BODY_NONE) {
        job_json_write(out, &job->job, (struct slice){0}, JOB_FORM_FINISHED, JOB_BODY_NONE);
        out->len -= !out->failed; /* the brace */
        PUT(out, ",\"content_type\":");
        json_write_string(out, job->job.content_type.len ? job->job.content_type
                                                         : slice_of("application/octet-stream"));
        job_json_write_bytes(out, "body", job->job.content_type, job->job.body, form);
    } else {
        job_json_write(out, &job->job, (struct slice){0},
                       is_finished ? JOB_FORM_FINISHED : JOB_FORM_KEPT,
                       has_body ? form : JOB_BODY_NONE);
        out->len -= !out->failed;
    }
    write_end(out, job->end, result_form);
    buffer_append_byte(out, '}');
}

static void write_outcome(struct buffer *out, const struct queue_job *job)
{
    PUT(out, "{\"topic\":");
    json_write_string(out, job->job.topic);
    PUT(out, ",\"id\":");
    json_write_string(out, job->job.id);
    PUT(out, ",\"state\":\"");
    buffer_append_text(out, job_state_name(job->job.state));
    buffer_append_byte(out, '"');
    if (job->end && job->end->outcome)
        write_end(
            out,
            &(struct queue_end){.outcome = job->end->outcome, .finished_ms = job->end->finished_ms},
            JOB_BODY_NONE);
    buffer_append_byte(out, '}');
}

/* Writes a ready job with the reason for which it is not delivered. */
static void write_held(struct buffer *out, const struct queue_job *job, enum job_form_body form)
{
    job_json_write(out, &job->job, (struct slice){0}, JOB_FORM_KEPT, JOB_BODY_NONE);
    out->len -= !out->failed; /* the brace */
    PUT(out, ",\"held_by\":\"");
    buffer_append_text(out, flow_held_name(job->held_by));
    buffer_append_byte(out, '"');
    if (job->held_until_ms)
        write_time(out, "held_until", job->held_until_ms);
    job_json_write_bytes(out, "body", job->job.content_type, job->job.body, form);
    buffer_append_byte(out, '}');
}

/* Writes a job with a batch of its own, and the members of it by their outcome. */
static void write_waiting(struct buffer *out, const struct queue_job *job, enum job_form_body form)
{
    const struct queue_waiting *waiting = job->waiting;
    job_json_write(out, &job->job, (struct slice){0}, JOB_FORM_KEPT, JOB_BODY_NONE);
    out->len -= !out->failed; /* the brace */
    if (!waiting->has_ended) {
        PUT(out, ",\"waits_for\":");
        buffer_append_u64(out, batch_waits_for(&waiting->counts, waiting->on_dead));
        if (waiting->when.due == QUEUE_DUE_DELAY && waiting->when.ms) {
            PUT(out, ",\"delay\":\"");
            duration_emit(out, waiting->when.ms);
            buffer_append_byte(out, '"');
        } else if (waiting->when.due == QUEUE_DUE_AT) {
            write_time(out, "at", waiting->when.ms);
        }
    }
    buffer_append_text(out, waiting->is_closed ? ",\"closed\":true" : ",\"closed\":false");
    for (int i = 0; i < BATCH_OUTCOMES; i++) {
        buffer_append_text(out, i ? ",\"" : ",\"outcomes\":{\"");
        buffer_append_text(out, batch_outcome_name((enum batch_outcome)i));
        PUT(out, "\":");
        buffer_append_u64(out, waiting->counts.of[i]);
    }
    buffer_append_byte(out, '}');
    job_json_write_bytes(out, "body", job->job.content_type, job->job.body, form);
    buffer_append_byte(out, '}');
}

void api_job_write(struct buffer *out, const struct queue_job *job, enum api_view view)
{
    if (__builtin_expect(view == API_VIEW_OUTCOME, 0)) {
        write_outcome(out, job);
        return;
    }
    bool is_taken = view == API_VIEW_TAKEN || view == API_VIEW_TAKEN_EXACT;
    bool is_exact = view == API_VIEW_EXACT || view == API_VIEW_TAKEN_EXACT;
    bool is_bare = view == API_VIEW_LISTED || view == API_VIEW_RESULT;
    enum job_form_body form = is_exact ? JOB_BODY_EXACT : is_bare ? JOB_BODY_NONE : JOB_BODY_SHOWN;
    if (__builtin_expect(job->end != NULL, 0))
        write_ended(out, job, form, view == API_VIEW_RESULT ? JOB_BODY_SHOWN : form);
    else if (__builtin_expect(job->waiting && !is_taken, 0))
        write_waiting(out, job, form);
    else if (__builtin_expect(job->held_by != FLOW_NOT_HELD, 0))
        write_held(out, job, form);
    else
        job_json_write(out, &job->job, job->lease, is_taken ? JOB_FORM_TAKEN : JOB_FORM_KEPT, form);
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
