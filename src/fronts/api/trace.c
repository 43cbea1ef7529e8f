#include "api/trace.h"

#include "queue/status.h"
#include "trace/tracer.h"

enum { STATE_TEXT_BYTES_MAX = 4 * TRACE_STATE_BYTES_MAX }; /* including blanks between members */

/* Joins the lists of all tracestate headers. */
static void join_states(const struct http_request *request, struct buffer *out)
{
    for (uint32_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];
        if (!http_is(header->name, "tracestate"))
            continue;
        if (out->len)
            buffer_append_byte(out, ',');
        buffer_append_slice(out, header->value);
    }
}

/* Finds traceparent. Returns false unless there is exactly one, since several are ambiguous. */
static bool find_parent(const struct http_request *request, struct slice *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (!http_is(request->headers[i].name, "traceparent"))
            continue;
        *out = request->headers[i].value;
        count++;
    }
    return count == 1;
}

bool api_trace_read(const struct http_request *request, struct trace_carry *out)
{
    struct slice parent;
    struct buffer states;
    if (!request->has_trace || !find_parent(request, &parent))
        return false;
    buffer_init(&states, STATE_TEXT_BYTES_MAX);
    join_states(request, &states);
    bool is_good =
        trace_carry_set(out, parent, states.failed ? (struct slice){0} : buffer_slice(&states));
    buffer_fini(&states);
    return is_good;
}

/* ---- pushes ---- */

/* Begins a span for the request, as a child of `context` unless that is NULL. */
static void begin_push(struct http_exchange *exchange, const struct trace_context *context,
                       struct slice state)
{
    exchange->span = tracer_push(exchange->front->shared->tracer, context, state);
    if (exchange->span)
        exchange->span->start_us = clock_wall_us() - (clock_boot_us() - exchange->started_us);
}

void api_trace_push(struct http_call *call, struct buffer *meta)
{
    struct http_exchange *exchange = call->exchange;
    struct trace_context own;
    struct trace_carry carry;
    struct slice state;
    if (trace_meta_names(buffer_slice(
            meta))) { /* the job's own context has precedence over that of the request */
        if (!call->front->shared->tracer || !trace_meta_find(buffer_slice(meta), &own, &state))
            return;
        begin_push(exchange, &own, state);
        if (own.is_sampled)
            trace_meta_add_pushed(meta, clock_wall_us());
    } else if (api_trace_batch(call, &carry) && trace_meta_add(meta, &carry) && exchange->span) {
        trace_meta_add_pushed(meta, clock_wall_us());
    }
    if (exchange->span)
        trace_span_set_topic(exchange->span, call->topic);
    if (exchange->span)
        exchange->span->body_bytes = call->request->body.len;
}

bool api_trace_batch(struct http_call *call, struct trace_carry *out)
{
    struct http_exchange *exchange = call->exchange;
    bool is_given = api_trace_read(call->request, out);
    if (!call->front->shared->tracer)
        return is_given;
    begin_push(exchange, is_given ? &out->context : NULL,
               is_given ? trace_carry_state(out) : (struct slice){0});
    if (!exchange->span)
        return is_given;
    if (!is_given)
        out->state_bytes = 0;
    out->context = exchange->span->self;
    return true;
}

void api_trace_batch_read(struct http_exchange *exchange, const struct queue_push *pushes,
                          size_t count, uint32_t carried)
{
    bool is_one_topic = true;
    if (!carried) { /* each of its jobs has a trace of its own */
        trace_span_free(exchange->span);
        exchange->span = NULL;
        return;
    }
    for (size_t i = 1; i < count; i++)
        is_one_topic = is_one_topic && slice_equals(pushes[i].topic, pushes[0].topic);
    if (is_one_topic)
        trace_span_set_topic(exchange->span, pushes[0].topic);
    exchange->span->jobs = (uint32_t)count;
}

void api_trace_pushed(struct http_exchange *exchange, const struct queue_result *results,
                      size_t count)
{
    struct trace_span *span = exchange->span;
    const struct queue_result *worst = results;
    for (size_t i = 0; i < count && queue_status_is_success(worst->status); i++)
        worst = &results[i];
    if (!span->jobs)
        trace_span_set_id(span, results->id);
    exchange->span = NULL;
    tracer_end(exchange->front->shared->tracer, span, queue_status_code(worst->status),
               !queue_status_is_success(worst->status));
}

/* ---- consumers ---- */

void api_trace_taken(struct http_front *front, const struct queue_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tracer_taken(front->shared->tracer, &jobs[i].job, jobs[i].lease);
}

void api_trace_answering(struct http_front *front, const struct queue_answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (answers[i].verb == QUEUE_NACK && answers[i].error.len)
            tracer_lease_error(front->shared->tracer, answers[i].lease, answers[i].error);
}

void api_trace_answered(struct http_front *front, enum queue_verb verb, struct slice lease,
                        const struct queue_result *result)
{
    struct tracer *tracer = front->shared->tracer;
    if (result->status == QUEUE_LEASE_ENDED)
        tracer_lease_ended(tracer, lease, "lease_ended", true);
    else if (result->status == QUEUE_CANCELLED)
        tracer_lease_ended(tracer, lease, "cancelled", false);
    else if (result->status != QUEUE_OK && result->status != QUEUE_CREATED)
        return; /* the consumer still has the job */
    else if (verb == QUEUE_EXTEND)
        tracer_lease_extended(tracer, lease, result->lease_until_ms);
    else
        tracer_lease_ended(tracer, lease,
                           verb == QUEUE_ACK || verb == QUEUE_AGAIN ? "acked" : "nacked",
                           verb == QUEUE_NACK);
}
