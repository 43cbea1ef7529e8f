/* Takes: jobs are handed to consumers, immediately or when jobs become ready. */
#include "api/take.h"

#include "api/consumers.h"
#include "api/job_json.h"
#include "api/media.h"
#include "api/routes.h"
#include "api/state.h"
#include "api/trace.h"
#include "base/clock.h"
#include "base/timestamp.h"
#include "http/connection.h"
#include "http/route.h"
#include "http/unsent.h"

#include <inttypes.h>
#include <stdio.h>

enum { WAIT_BYTES = 1024 };

/* ---- answers ---- */

/* Returns jobs that were not delivered to the queue. */
static void return_jobs(struct http_front *front, const struct queue_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        http_lease_return(front, &jobs[i].lease, 1);
}

static void write_time_field(struct http_exchange *exchange, const char *name, int64_t ms)
{
    char text[TIMESTAMP_BYTES];
    timestamp_write(text, ms);
    http_answer_field(exchange, name, slice_make(text, sizeof text));
}

static void write_number_field(struct http_exchange *exchange, const char *name, uint64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, number);
    http_answer_field(exchange, name, slice_make(text, (size_t)len));
}

static void write_meta_fields(struct http_exchange *exchange, struct slice meta)
{
    struct slice name, value;
    char field[96] = "Tarry-Meta-";
    static const size_t prefix = sizeof "Tarry-Meta-" - 1;
    size_t at = 0;
    while (job_meta_next(meta, &at, &name, &value)) {
        if (slice_is(name, JOB_META_CALLBACK)) {
            http_answer_field(exchange, "Tarry-Callback", value);
            continue;
        }
        if (job_meta_is_hidden(name))
            continue;
        if (name.len >= sizeof field - prefix)
            continue;
        memcpy(field + prefix, name.at, name.len);
        field[prefix + name.len] = 0;
        http_answer_field(exchange, field, value);
    }
}

/* Writes the raw body. Returns its type, valid until the next call. */
static const char *write_raw(struct http_exchange *exchange, const struct queue_job *taken)
{
    static _Thread_local char type[JOB_CONTENT_TYPE_BYTES_MAX + 1];
    const struct job *job = &taken->job;
    buffer_append_slice(http_answer_start(exchange), job->body);
    http_answer_field(exchange, "Tarry-Topic", job->topic);
    http_answer_field(exchange, "Tarry-Id", job->id);
    http_answer_field(exchange, "Tarry-Lease", taken->lease);
    write_number_field(exchange, "Tarry-Attempt", job->attempt);
    write_number_field(exchange, "Tarry-Delivery", job->delivery);
    write_time_field(exchange, "Tarry-Due-At", job->due_ms);
    write_time_field(exchange, "Tarry-Lease-Until", job->lease_until_ms);
    write_number_field(exchange, "Tarry-Priority", job->priority);
    write_meta_fields(exchange, job->meta);
    if (job->content_type.len && job->content_type.len <= JOB_CONTENT_TYPE_BYTES_MAX &&
        api_media_is_valid(job->content_type)) {
        memcpy(type, job->content_type.at, job->content_type.len);
        type[job->content_type.len] = 0;
        return type;
    }
    return "application/octet-stream";
}

/* Writes the jobs. Returns how many the answer contains: at least one, then as many as fit. */
static size_t write_json(struct http_exchange *exchange, const struct queue_job *jobs, size_t count)
{
    struct buffer *body = http_answer_start(exchange);
    enum api_view view =
        exchange->bodies == HTTP_BODIES_BASE64 ? API_VIEW_TAKEN_EXACT : API_VIEW_TAKEN;
    size_t i = 0;
    buffer_append_text(body, "{\"jobs\":[");
    for (; i < count && (i == 0 || body->len < HTTP_TAKE_BYTES_MAX); i++) {
        if (i)
            buffer_append_byte(body, ',');
        api_job_write(body, &jobs[i], view);
    }
    buffer_append_text(body, "]}\n");
    return i;
}

/* The same in the format of the route, up to its maximum size. */
static size_t write_format(struct http_exchange *exchange, const struct queue_job *jobs,
                           size_t count)
{
    const struct http_format *format = exchange->route->format;
    struct buffer *body = format->begin(exchange);
    size_t i = 0;
    for (; i < count; i++) {
        size_t before = body->len;
        format->add_job(body, &jobs[i], true);
        if (i && !http_format_keeps(format, body, before))
            break;
    }
    return i;
}

/* Returns whether there is memory for an answer with these bodies. */
static bool has_memory_for(const struct http_front *front, const struct queue_reply *reply)
{
    size_t bytes = 0;
    for (size_t i = 0; i < reply->job_count; i++)
        bytes += reply->jobs[i].job.body.len;
    return http_budget_has(front, bytes);
}

static void refuse_take_for_memory(struct http_exchange *exchange)
{
    struct http_fault fault;
    http_budget_refuse(exchange->front, &fault);
    http_answer_fault(exchange, &fault);
}

/* Writes the answer. Returns how many jobs it contains; 0 if there is no memory for it. */
static size_t answer_jobs(struct http_exchange *exchange, const struct queue_reply *reply)
{
    struct http_front *front = exchange->front;
    const char *type = http_json_type;
    size_t used = 1;
    if (!has_memory_for(front, reply)) {
        refuse_take_for_memory(exchange);
        return 0;
    }
    if (exchange->route->format) {
        used = write_format(exchange, reply->jobs, reply->job_count);
    } else if (exchange->wants_raw) {
        type = write_raw(exchange, &reply->jobs[0]);
        http_answer_field(exchange, "X-Content-Type-Options", slice_of("nosniff"));
    } else {
        used = write_json(exchange, reply->jobs, reply->job_count);
    }
    if (front->body.failed || front->fields.failed ||
        !http_lease_note(exchange, reply->jobs, used)) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "the answer did not fit into memory");
        return 0;
    }
    if (exchange->route->format)
        exchange->route->format->end(exchange, (struct slice){0});
    else
        http_answer_end(exchange, 200, type);
    return used;
}

static void refuse_to_wait(struct http_exchange *exchange)
{
    uint32_t max = exchange->front->options.waiting_max;
    http_answer_problem(
        exchange, PROBLEM_TOO_MANY_WAITING, max,
        "already %u takes wait, which is the limit: take without wait, or try again later", max);
}

/* Records the consumer; all jobs went to the same one. */
static void note_consumer(struct http_front *front, const struct queue_job *jobs, size_t count)
{
    int64_t now_ms = clock_wall_ms();
    for (size_t i = 0, first = 0; i <= count; i++) {
        if (i < count && slice_equals(jobs[i].job.topic, jobs[first].job.topic))
            continue;
        api_consumers_note(api_consumers_of(front->shared), jobs[first].job.topic,
                           jobs[first].job.consumer, i - first, now_ms);
        first = i;
    }
}

void api_take_note(struct http_front *front, const struct queue_job *jobs, size_t count)
{
    if (count && front->shared->lateness)
        lateness_add(front->shared->lateness, JOB_WAY_TAKE, jobs, count,
                     queue_wall_ms(front->queue));
    if (count && jobs[0].job.consumer.len)
        note_consumer(front, jobs, count);
    if (count && front->shared->tracer)
        api_trace_taken(front, jobs, count);
}

/* Handles the queue's reply: jobs for the take, or the end of its wait. Jobs that do not fit into
 * the answer are returned. */
static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct http_front *front = owner;
    struct http_exchange *exchange = http_exchange_find(front, tag);
    size_t used = 0;
    if (exchange)
        exchange->waiter = 0;
    if (!exchange)
        used = 0;
    else if (exchange->caller && !http_gate_holds(exchange))
        http_gate_refuse_ended(exchange);
    else if (reply->status != QUEUE_OK)
        http_answer_refusal(exchange, reply->status, NULL,
                            reply->status == QUEUE_LEASED ? JOB_LEASED : 0);
    else if (reply->job_count)
        used = answer_jobs(exchange, reply);
    else if (refused)
        refuse_to_wait(exchange);
    else if (exchange->is_unheld)
        refuse_take_for_memory(exchange);
    else
        http_answer_no_jobs(exchange);
    api_take_note(front, reply->jobs, used);
    return_jobs(front, reply->jobs + used, reply->job_count - used);
}

/* ---- requests ---- */

/* Reads the take. On false, *fault describes the problem. */
static bool read_take(struct http_call *call, struct queue_take *take, struct http_fault *fault)
{
    struct http_query *query = call->query;
    const struct http_fields *fields = &query->fields;
    *take = (struct queue_take){
        .topics = query->topics,
        .topic_count = query->topic_count,
        .id = call->id,
        .by_priority = fields->by_priority,
        .max = http_fields_have(fields, OPTION_MAX) ? (uint32_t)fields->max : 1,
        .lease_ms = fields->policy.lease_ms,
        .consumer = fields->consumer,
        .way = JOB_WAY_TAKE,
    };
    if (call->topic.len) {
        take->topics = &call->topic;
        take->topic_count = 1;
    }
    if (take->topic_count == 0)
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0,
                              "'topic' is missing: name at least one, as in /v1/take?topic=mail");
    for (size_t i = 0; i < take->topic_count && !call->topic.len; i++)
        if (!http_gate_allows(call->front, call->caller, call->exchange->route, take->topics[i],
                              fault))
            return false;
    call->exchange->bodies = fields->bodies;
    if (fields->bodies == HTTP_BODIES_NONE)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                              "'body' of a take is true or base64: a take always returns the body");
    call->exchange->wants_raw = http_begins(call->request->accept, "application/octet-stream");
    if (call->exchange->wants_raw && take->max != 1)
        return http_fault_set(
            fault, PROBLEM_BAD_OPTION, 1,
            "'max' must be 1 if the body is requested raw (Accept: application/octet-stream)");
    return true;
}

static void take_jobs(struct http_call *call)
{
    struct http_front *front = call->front;
    struct http_exchange *exchange = call->exchange;
    struct queue_take take;
    struct http_fault fault;
    if (!read_take(call, &take, &fault)) {
        http_answer_fault(exchange, &fault);
        return;
    }
    if (exchange->connection->socket
            .peer_ended) { /* it may be gone, and would block other consumers */
        http_answer_no_jobs(exchange);
        return;
    }
    int64_t wait_ms = call->query->fields.wait_ms;
    if (wait_ms > 0 && http_budget_is_spent(front)) {
        wait_ms = 0;
        exchange->is_unheld = true;
    }
    if (wait_ms > 0 && !http_quota_wait(exchange, &fault)) {
        http_answer_fault(exchange, &fault);
        return;
    }
    if (wait_ms > 0) {
        /* Rounds a started millisecond up, so that an empty answer is never sent too early. */
        wait_ms++;
        http_gate_wait(exchange, call->caller, WAIT_BYTES);
    }
    for (size_t i = 0; i < take.topic_count && take.consumer.len; i++)
        api_consumers_note(api_consumers_of(front->shared), take.topics[i], take.consumer, 0,
                           clock_wall_ms());
    int64_t now_ms = http_front_now_ms(front);
    exchange->waiter = waiter_take(front->waiters, &take, wait_ms, now_ms, on_taken, front,
                                   http_exchange_tag(exchange));
    if (!exchange->waiter)
        http_answer_refusal(exchange, QUEUE_NO_MEMORY, NULL, 0);
    else if (wait_ms)
        http_front_wake_by(front, now_ms + wait_ms);
}

#define TAKE                                                                                       \
    (OPTION_BIT(OPTION_MAX) | OPTION_BIT(OPTION_WAIT) | OPTION_BIT(OPTION_LEASE_FOR) |             \
     OPTION_BIT(OPTION_BODY) | OPTION_BIT(OPTION_CONSUMER) | OPTION_BIT(OPTION_ORDER))
#define TAKE_ONE                                                                                   \
    (OPTION_BIT(OPTION_LEASE_FOR) | OPTION_BIT(OPTION_BODY) | OPTION_BIT(OPTION_CONSUMER))
#define TAKE_ROUTE(PATTERN, OPTIONS, TOPICS)                                                       \
    {                                                                                              \
        .method = HTTP_METHOD_POST, .pattern = (PATTERN), .name = "take", .handle = take_jobs,     \
        .options = (OPTIONS), .answer = HTTP_ANSWER_TAKE, .scope = ACCESS_CONSUME,                 \
        .topics = HTTP_TOPICS_##TOPICS                                                             \
    }

const struct http_route api_take_routes[] = {
    TAKE_ROUTE(HTTP_TOPIC_PATH "/take", TAKE, PATH),
    TAKE_ROUTE("/v1/take", TAKE | OPTION_BIT(OPTION_TOPIC), EACH),
    TAKE_ROUTE(HTTP_JOB_PATH "/take", TAKE_ONE, PATH),
    {0},
};
