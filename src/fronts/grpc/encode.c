#include "grpc/encode.h"

#include "grpc/wire.h"
#include "queue/status.h"

#include <inttypes.h>
#include <stdio.h>

/* The numbers of fields and enums are those of proto/tarry/v1/queue.proto. test_grpc_encode decodes all of them with the
 * generated code. */

/* Returns the enum Result of a success, or 0. */
static uint64_t result_of(enum queue_status status)
{
    static const struct {
        enum queue_status status;
        uint8_t number;
    } rows[] = {{QUEUE_OK, 1},      {QUEUE_CREATED, 2},   {QUEUE_REPLACED, 3},
                {QUEUE_EXISTED, 4}, {QUEUE_CANCELLED, 5}, {QUEUE_REQUESTED, 6}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status)
            return rows[i].number;
    return 0;
}

/* Returns the enum State. */
static uint64_t state_of(enum job_state state)
{
    return state >= JOB_DELAYED && state <= JOB_FINISHED ? (uint64_t)state : 0;
}

/* Returns the state after a change; a finished job has no such state. */
static uint64_t live_state_of(enum job_state state)
{
    return state == JOB_FINISHED ? 0 : state_of(state);
}

/* ---- messages of one number ---- */

static void write_priority(struct buffer *out, uint32_t field, uint64_t priority)
{
    size_t begin = wire_begin(out, field, 8);
    wire_u64(out, 1, priority);
    wire_end(out, begin);
}

static void write_attempts(struct buffer *out, uint32_t field, uint32_t attempts)
{
    if (!attempts)
        return;
    size_t begin = wire_begin(out, field, 8);
    if (attempts == POLICY_ATTEMPTS_NONE)
        wire_flag(out, 2, true);
    else
        wire_u64(out, 1, attempts);
    wire_end(out, begin);
}

static void write_backoff(struct buffer *out, uint32_t field, const struct backoff *backoff)
{
    struct buffer text;
    if (!backoff->kind)
        return;
    buffer_init(&text, 512);
    policy_emit_backoff(&text, backoff);
    wire_text(out, field, buffer_slice(&text));
    buffer_fini(&text);
}

/* ---- jobs ---- */

static void write_meta(struct buffer *out, struct slice meta)
{
    struct slice name, value;
    size_t at = 0;
    while (job_meta_next(meta, &at, &name, &value)) {
        if (job_meta_is_hidden(name))
            continue;
        if (slice_is(name, JOB_META_CALLBACK)) {
            wire_unsafe_text(out, 28, value);
            continue;
        }
        size_t begin = wire_begin(out, 12, name.len + value.len + 8);
        wire_text(out, 1, name);
        wire_unsafe_text(out, 2, value);
        wire_end(out, begin);
    }
}

/* Writes the batch of which the job is a member. */
static void write_batch(struct buffer *out, struct slice encoded)
{
    struct job_batch batch;
    if (!encoded.len || !job_batch_decode(encoded, &batch) || !batch.topic.len)
        return;
    size_t begin = wire_begin(out, 31, batch.topic.len + batch.id.len + 8);
    wire_text(out, 1, batch.topic);
    wire_text(out, 2, batch.id);
    wire_end(out, begin);
}

static void write_waiting(struct buffer *out, const struct queue_waiting *waiting)
{
    size_t begin = wire_begin(out, 32, 32);
    if (!waiting->has_ended)
        wire_u64(out, 1, batch_waits_for(&waiting->counts, waiting->on_dead));
    wire_flag(out, 2, waiting->is_closed);
    wire_flag(out, 3, waiting->has_ended);
    for (uint32_t i = 0; i < BATCH_OUTCOMES; i++)
        wire_u64(out, 4 + i, waiting->counts.of[i]);
    wire_end(out, begin);
}

/* Writes what only Get and List show. */
static void write_kept(struct buffer *out, const struct job *job)
{
    wire_u64(out, 20, state_of(job->state));
    wire_unsafe_text(out, 21, job->error);
    wire_unsafe_text(out, 22, job->consumer);
    wire_duration(out, 23, job->policy.ttl_ms);
    wire_duration(out, 24, job->policy.lease_ms);
    write_attempts(out, 25, job->policy.max_attempts);
    write_backoff(out, 26, &job->policy.backoff);
    wire_flag(out, 27, job->cancel_requested);
}

/* Writes how the job ended. The result is one of the bodies. */
static void write_end(struct buffer *out, const struct queue_end *end, bool with_result)
{
    wire_text(out, 33, slice_of(end->outcome ? job_end_name(end->outcome) : ""));
    wire_time(out, 34, end->finished_ms);
    wire_duration(out, 35, end->duration_ms);
    wire_u64(out, 37, end->result.len + end->omitted_bytes);
    if (!with_result || !end->result.len)
        return;
    size_t begin = wire_begin(out, 36, end->result.len + end->result_type.len + 16);
    wire_text(out, 1, end->result);
    wire_unsafe_text(out, 2, end->result_type);
    wire_end(out, begin);
}

static void write_job(struct buffer *out, const struct queue_job *taken, bool with_body,
                      bool with_result)
{
    const struct job *job = &taken->job;
    wire_text(out, 1, job->topic);
    wire_text(out, 2, job->id);
    wire_text(out, 3, taken->lease);
    if (with_body)
        wire_text(out, 4, job->body);
    wire_unsafe_text(out, 5, job->content_type);
    wire_u64(out, 6, job->attempt);
    wire_u64(out, 7, job->delivery);
    wire_time(out, 8, job->due_ms);
    wire_time(out, 9, job->lease_until_ms);
    wire_u64(out, 10, job->priority);
    wire_text(out, 11, job->group);
    write_meta(out, job->meta);
    write_batch(out, job->batch);
    if (taken->lease.len)
        return;
    write_kept(out, job);
    wire_text(out, 29, slice_of(flow_held_name(taken->held_by)));
    wire_time(out, 30, taken->held_until_ms);
    if (taken->waiting)
        write_waiting(out, taken->waiting);
    wire_unsafe_text(out, 38, job->progress);
    if (taken->end)
        write_end(out, taken->end, with_result);
}

void encode_job(struct buffer *out, const struct queue_job *job, bool with_body)
{
    write_job(out, job, with_body, with_body);
}

void encode_ended(struct buffer *out, const struct queue_job *job)
{
    write_job(out, job, false, true);
}

/* ---- results ---- */

void encode_problem(struct buffer *out, uint32_t field, const struct http_refusal *refusal)
{
    char text[24];
    size_t begin = wire_begin(out, field, 100);
    wire_text(out, 1, slice_of(refusal->code));
    wire_unsafe_text(out, 2, slice_of(refusal->detail));
    if (refusal->limit_name) {
        wire_text(out, 3, slice_of(refusal->limit_name));
    } else if (refusal->limit) {
        int len = snprintf(text, sizeof text, "%" PRIu64, refusal->limit);
        wire_text(out, 3, slice_make(text, (size_t)len));
    }
    wire_end(out, begin);
}

static void write_refusal(struct buffer *out, uint32_t field, const struct queue_result *result)
{
    struct http_refusal refusal;
    if (queue_status_is_success(result->status) || result->status == QUEUE_REQUESTED)
        return;
    http_refusal_of(&refusal, result->status, result->detail, result->limit);
    encode_problem(out, field, &refusal);
}

void encode_push_result(struct buffer *out, const struct queue_result *result)
{
    wire_text(out, 1, result->topic);
    wire_text(out, 2, result->id);
    wire_u64(out, 3, result_of(result->status));
    if (result->status != QUEUE_CANCELLED) { /* the recorded state is no longer meaningful */
        wire_u64(out, 4, live_state_of(result->state));
        wire_time(out, 5, result->due_ms);
    }
    write_refusal(out, 6, result);
}

void encode_answer_result(struct buffer *out, const struct queue_result *result)
{
    wire_u64(out, 1, result_of(result->status));
    wire_text(out, 2, result->id);
    wire_u64(out, 3, live_state_of(result->state));
    wire_time(out, 4, result->due_ms);
    wire_time(out, 5, result->lease_until_ms);
    wire_flag(out, 6, result->cancel_requested);
    write_refusal(out, 7, result);
}

/* ---- topics ---- */

static void write_numbers(struct buffer *out, uint32_t field, const uint64_t *values,
                          uint32_t count)
{
    size_t begin = wire_begin(out, field, 16);
    for (uint32_t i = 0; i < count; i++)
        wire_u64(out, i + 1, values[i]);
    wire_end(out, begin);
}

static uint64_t conflict_of(enum record_conflict conflict)
{
    static const uint8_t numbers[] = {
        [CONFLICT_REJECT] = 1, [CONFLICT_REPLACE] = 2, [CONFLICT_KEEP] = 3, [CONFLICT_AFTER] = 4};
    return (size_t)conflict < sizeof numbers ? numbers[conflict] : 0;
}

static void write_rate(struct buffer *out, uint32_t field, struct frequency rate)
{
    struct buffer text;
    buffer_init(&text, 64);
    if (rate.count)
        frequency_emit(&text, rate);
    wire_text(out, field, buffer_slice(&text));
    buffer_fini(&text);
}

static void write_flow(struct buffer *out, const struct topic_flow *flow)
{
    wire_u64(out, 13, flow->topic.limit);
    write_rate(out, 14, flow->topic.rate);
    wire_u64(out, 15, flow->topic.burst);
    wire_u64(out, 16, flow->group.limit);
    write_rate(out, 17, flow->group.rate);
    wire_u64(out, 18, flow->group.burst);
    wire_u64(out, 19, flow->group_max_jobs);
    wire_text(out, 20, slice_of(flow->group_order == FLOW_STRICT ? "strict" : ""));
    wire_flag(out, 21, flow->one_shard);
}

static void write_keep(struct buffer *out, const struct topic_settings *settings)
{
    wire_duration(out, 22, settings->keep_finished_ms);
    wire_u64(out, 23, settings->keep_finished_max);
    wire_u64(out, 24, settings->keep_finished_bytes);
    wire_flag(out, 25, settings->keep_body);
}

static void write_settings(struct buffer *out, uint32_t field,
                           const struct topic_settings *settings)
{
    size_t begin = wire_begin(out, field, 100);
    if (settings->has_priority)
        write_priority(out, 1, (uint64_t)settings->priority);
    wire_duration(out, 2, settings->policy.ttl_ms);
    wire_duration(out, 3, settings->policy.lease_ms);
    write_attempts(out, 4, settings->policy.max_attempts);
    write_backoff(out, 5, &settings->policy.backoff);
    wire_u64(out, 6, conflict_of(settings->on_conflict));
    wire_duration(out, 7, settings->dedup_window_ms);
    wire_duration(out, 8, settings->history_ms);
    wire_flag(out, 9, settings->dead_letter_expired);
    wire_u64(out, 10, settings->max_jobs);
    write_rate(out, 11, settings->push_rate);
    wire_unsafe_text(out, 12, settings->extension);
    write_flow(out, &settings->flow);
    write_keep(out, settings);
    wire_end(out, begin);
}

void encode_topic(struct buffer *out, const struct queue_topic *topic)
{
    const struct queue_counts *counts = &topic->counts;
    const struct topic_totals *totals = &topic->totals;
    wire_text(out, 1, topic->name);
    wire_flag(out, 2, topic->paused);
    wire_time(out, 3, topic->paused_until_ms);
    write_numbers(out, 4,
                  (const uint64_t[]){counts->delayed, counts->retrying, counts->ready,
                                     counts->leased, counts->dead, counts->dead_bytes},
                  6);
    write_numbers(out, 5,
                  (const uint64_t[]){totals->pushed, totals->acked, totals->cancelled,
                                     totals->expired, totals->replaced, totals->delivered,
                                     totals->nacked, totals->lease_ended, totals->died,
                                     totals->redriven},
                  10);
    wire_time(out, 6, topic->oldest_ready_due_ms);
    write_settings(out, 7, &topic->settings);
}
