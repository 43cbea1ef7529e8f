#include "api/job_json.h"

#include "base/duration.h"
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

static void write_meta(struct buffer *out, struct slice meta)
{
    struct slice name, value, callback = {0};
    size_t at = 0;
    bool is_first = true;
    PUT(out, ",\"meta\":{");
    while (job_meta_next(meta, &at, &name, &value)) {
        if (slice_is(name, JOB_META_CALLBACK)) {
            callback = value;
            continue;
        }
        if (slice_is(name, JOB_META_PUSHED))
            continue;
        if (!is_first)
            buffer_append_byte(out, ',');
        is_first = false;
        json_write_string(out, name);
        buffer_append_byte(out, ':');
        json_write_string(out, value);
    }
    buffer_append_byte(out, '}');
    if (callback.len) {
        PUT(out, ",\"callback\":");
        json_write_string(out, callback);
    }
}

/* Writes the readable part of the history. */
static void write_history(struct buffer *out, struct slice history)
{
    struct job_attempt attempt;
    size_t at = 0;
    for (bool is_first = true; job_history_next(history, &at, &attempt); is_first = false) {
        buffer_append_text(out, is_first ? ",\"history\":[" : ",");
        PUT(out, "{\"attempt\":");
        buffer_append_u64(out, attempt.attempt);
        write_time(out, "at", attempt.started_ms);
        PUT(out, ",\"duration_ms\":");
        buffer_append_i64(out, attempt.duration_ms);
        PUT(out, ",\"outcome\":\"");
        buffer_append_text(out, job_outcome_name(attempt.outcome));
        buffer_append_byte(out, '"');
        if (attempt.error.len) {
            PUT(out, ",\"error\":");
            json_write_string(out, attempt.error);
        }
        buffer_append_byte(out, '}');
    }
    if (at)
        buffer_append_byte(out, ']');
}

static void write_taken(struct buffer *out, const struct queue_job *taken)
{
    const struct job *job = &taken->job;
    PUT(out, ",\"lease\":");
    json_write_string(out, taken->lease);
    PUT(out, ",\"attempt\":");
    buffer_append_u64(out, job->attempt);
    PUT(out, ",\"delivery\":");
    buffer_append_u64(out, job->delivery);
    write_time(out, "due_at", job->due_ms);
    write_time(out, "lease_until", job->lease_until_ms);
    PUT(out, ",\"priority\":");
    buffer_append_u64(out, job->priority);
}

static void write_duration(struct buffer *out, const char *key, int64_t ms)
{
    if (!ms)
        return;
    buffer_append_byte(out, ',');
    json_write_key(out, key);
    buffer_append_byte(out, '"');
    duration_emit(out, ms);
    buffer_append_byte(out, '"');
}

void api_policy_write(struct buffer *out, const struct policy *policy)
{
    write_duration(out, "lease_for", policy->lease_ms);
    write_duration(out, "ttl", policy->ttl_ms);
    if (policy->max_attempts == POLICY_ATTEMPTS_NONE) {
        buffer_append_text(out, ",\"max_attempts\":\"none\"");
    } else if (policy->max_attempts) {
        buffer_append_text(out, ",\"max_attempts\":");
        buffer_append_u64(out, policy->max_attempts);
    }
    if (policy->backoff.kind) {
        buffer_append_text(out, ",\"backoff\":\"");
        policy_emit_backoff(out, &policy->backoff);
        buffer_append_byte(out, '"');
    }
}

static void write_kept(struct buffer *out, const struct job *job)
{
    PUT(out, ",\"state\":\"");
    buffer_append_text(out, job_state_name(job->state));
    PUT(out, "\",\"due_at\":");
    json_write_time(out, job->due_ms);
    PUT(out, ",\"attempt\":");
    buffer_append_u64(out, job->attempt);
    PUT(out, ",\"delivery\":");
    buffer_append_u64(out, job->delivery);
    PUT(out, ",\"priority\":");
    buffer_append_u64(out, job->priority);
    if (job->state == JOB_LEASED)
        write_time(out, "lease_until", job->lease_until_ms);
    if (job->consumer.len) {
        PUT(out, ",\"consumer\":");
        json_write_string(out, job->consumer);
    }
    if (job->cancel_requested)
        PUT(out, ",\"cancel_requested\":true");
    if (job->error.len) {
        PUT(out, ",\"last_error\":");
        json_write_string(out, job->error);
    }
    write_history(out, job->history);
    api_policy_write(out, &job->policy);
}

void api_job_write(struct buffer *out, const struct queue_job *job, enum api_view view)
{
    PUT(out, "{\"topic\":");
    json_write_string(out, job->job.topic);
    PUT(out, ",\"id\":");
    json_write_string(out, job->job.id);
    if (view == API_VIEW_TAKEN || view == API_VIEW_TAKEN_EXACT)
        write_taken(out, job);
    else
        write_kept(out, &job->job);
    job_json_content_type(out, job->job.content_type);
    write_meta(out, job->job.meta);
    if (view == API_VIEW_EXACT || view == API_VIEW_TAKEN_EXACT) {
        PUT(out, ",\"body_base64\":");
        json_write_base64(out, job->job.body);
    } else if (view != API_VIEW_LISTED) {
        job_json_body(out, &job->job);
    }
    buffer_append_byte(out, '}');
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
