#include "api/sweep.h"
#include "api/state.h"

#include "http/query.h"
#include "http/route.h"
#include "queue/status.h"

static bool sweep_is_wanted(void *owner, uint64_t tag)
{
    return http_exchange_is_wanted(owner, tag);
}

void api_sweep_answer(struct http_exchange *exchange, uint64_t jobs, uint64_t seen,
                      bool is_complete)
{
    if (exchange->route->format) {
        exchange->route->format->affected(exchange, jobs, seen, is_complete);
        return;
    }
    struct buffer *body = http_answer_start_affected(exchange, jobs);
    buffer_append_text(body, exchange->is_dry_run ? ",\"dry_run\":true,\"seen\":" : ",\"seen\":");
    buffer_append_u64(body, seen);
    buffer_append_text(body, is_complete ? ",\"complete\":true}" : ",\"complete\":false}");
    http_answer_end_json(exchange, 200);
}

static void on_swept(void *owner, uint64_t tag, const struct sweep_result *result)
{
    struct http_front *front = owner;
    struct http_exchange *exchange = http_exchange_find(front, tag);
    api_front_of(front)->sweep_count--;
    if (!exchange)
        return;
    http_change_count(exchange, result->jobs);
    if (result->status != QUEUE_OK)
        http_answer_stopped(exchange, result->status, result->jobs);
    else
        api_sweep_answer(exchange, result->jobs, result->seen, result->is_complete);
}

static bool begin_sweep(struct http_call *call, struct sweep_order order, struct http_fault *fault)
{
    struct http_front *front = call->front;
    const struct http_fields *fields = &call->query->fields;
    if (fields->dry_run)
        order.verb = SWEEP_COUNT;
    order.topic = call->topic;
    order.max = (uint64_t)fields->max;
    order.filter = (struct queue_filter){.error = fields->error,
                                         .id_prefix = fields->id_prefix,
                                         .died_after_ms = fields->died_after_ms,
                                         .died_before_ms = fields->died_before_ms,
                                         .due_after_ms = fields->due_after_ms,
                                         .due_before_ms = fields->due_before_ms};
    (void)http_meta_split(fields->meta, &order.filter.meta_name, &order.filter.meta_value);
    if (!http_error_filter_check(fields, fault))
        return false;
    if (api_front_of(front)->sweep_count >= HTTP_SWEEPS_MAX)
        return http_fault_set(
            fault, PROBLEM_TOO_MANY_SWEEPS, HTTP_SWEEPS_MAX,
            "%d changes by a filter are in progress: try again when one has ended",
            HTTP_SWEEPS_MAX);
    call->exchange->is_dry_run = fields->dry_run;
    if (fields->dry_run)
        http_change_drop(call->exchange);
    call->exchange->waits = true; /* not in request durations: depends on the number of jobs */
    if (!sweep_start(front->queue, &order, sweep_is_wanted, on_swept, front,
                     http_exchange_tag(call->exchange)))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    api_front_of(front)->sweep_count++;
    return true;
}

void api_sweep(struct http_call *call, struct sweep_order order)
{
    struct http_fault fault;
    if (!begin_sweep(call, order, &fault))
        http_answer_fault(call->exchange, &fault);
}

bool api_sweep_has_no_body(struct http_call *call)
{
    struct http_fault fault;
    struct slice body = call->request->body;
    buffer_clear(&call->front->arena);
    if (!body.len ||
        http_query_refuse_body(body, call->exchange->route->options, &call->front->arena, &fault))
        return true;
    http_answer_fault(call->exchange, &fault);
    return false;
}
