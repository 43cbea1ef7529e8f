#include "http/exchange.h"

#include "audit/change.h"
#include "base/buffer_put.h"
#include "base/json_write.h"
#include "http/connection.h"
#include "http/unsent.h"
#include "queue/status.h"
#include "trace/tracer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- lookup by tag ---- */

struct http_exchange *http_exchange_add(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    uint32_t id = slab_add(&front->exchanges);
    if (!id)
        return NULL;
    struct http_exchange *exchange = slab_at(&front->exchanges, id);
    if (++front->serial == 0)
        front->serial = 1;
    exchange->serial = front->serial;
    exchange->id = id;
    exchange->front = front;
    exchange->connection = connection;
    exchange->cors_origin = connection->parser.cors_origin;
    exchange->started_us = http_front_now_us(front);
    connection->exchange_count++;
    connection->wire->add(exchange);
    return exchange;
}

uint64_t http_exchange_tag(const struct http_exchange *exchange)
{
    return (uint64_t)exchange->serial << 32 | exchange->id;
}

struct http_exchange *http_exchange_find(struct http_front *front, uint64_t tag)
{
    uint32_t id = (uint32_t)tag;
    if (id == 0 || id > front->exchanges.top)
        return NULL;
    struct http_exchange *exchange = slab_at(&front->exchanges, id);
    return exchange->serial == (uint32_t)(tag >> 32) ? exchange : NULL;
}

bool http_exchange_is_wanted(struct http_front *front, uint64_t tag)
{
    const struct http_exchange *exchange = http_exchange_find(front, tag);
    return exchange && exchange->connection && !exchange->connection->socket.saw_end &&
           !front->is_draining;
}

/* Fills in the caller in the front's single call structure, which suffices because calls are
 * immediate. */
static const struct queue_caller *call_as(struct http_exchange *exchange,
                                          const struct access_caller *caller,
                                          struct quota_account *account)
{
    struct access_call *as = &exchange->front->call;
    as->caller = caller;
    as->account = account;
    as->change = exchange->change;
    return &as->queue;
}

struct queue_reply_to http_reply_to(struct http_call *call, queue_done *done)
{
    struct http_exchange *exchange = call->exchange;
    return (struct queue_reply_to){
        .done = done,
        .owner = call->front,
        .tag = http_exchange_tag(exchange),
        .caller = call_as(exchange, call->caller, exchange->connection->quota.caller)};
}

static bool reply_is_wanted(void *owner, uint64_t tag)
{
    const struct http_exchange *exchange = http_exchange_find(owner, tag);
    return exchange && exchange->connection; /* a long read is kept when its client is gone */
}

struct queue_reply_to http_read_reply_to(struct http_call *call, queue_done *done)
{
    struct queue_reply_to reply_to = http_reply_to(call, done);
    reply_to.is_wanted = reply_is_wanted;
    return reply_to;
}

const struct queue_caller *http_exchange_caller(struct http_exchange *exchange)
{
    const struct http_connection *connection = exchange->connection;
    assert(exchange->caller || connection); /* a later step without a kept caller */
    const struct access_caller *caller =
        exchange->caller ? exchange->caller : connection->gate.caller;
    bool is_same = connection && connection->gate.caller == caller;
    return call_as(exchange, caller, is_same ? connection->quota.caller : NULL);
}

struct queue_reply_to http_exchange_reply_to(struct http_exchange *exchange, queue_done *done)
{
    return (struct queue_reply_to){.done = done,
                                   .owner = exchange->front,
                                   .tag = http_exchange_tag(exchange),
                                   .caller = http_exchange_caller(exchange)};
}

/* ---- calls in pieces ---- */

void http_exchange_hold_back(struct http_exchange *exchange)
{
    assert(!exchange->is_partial && exchange->connection);
    exchange->is_partial = true;
    exchange->connection->partial_count++;
}

void http_exchange_let_go(struct http_exchange *exchange)
{
    if (!exchange->is_partial)
        return;
    exchange->is_partial = false;
    if (!exchange->connection)
        return;
    exchange->connection->partial_count--;
    http_connection_touch(exchange->connection);
}

/* ---- queue of long requests ---- */

/* Lets the first connection of the queue try again if there is room. */
static void wake_long_line(struct http_front *front)
{
    if (front->long_count < HTTP_LONG_COUNT_MAX && !list_is_empty(&front->long_line))
        http_connection_touch(list_entry(front->long_line.next, struct http_connection, long_line));
}

void http_long_line_leave(struct http_connection *connection)
{
    if (list_is_empty(&connection->long_line))
        return;
    list_remove(&connection->long_line);
    wake_long_line(connection->front);
}

static void long_end(struct http_exchange *exchange)
{
    exchange->front->long_count--;
    wake_long_line(exchange->front);
}

/* ---- counts of answers ---- */

const struct bucket_bounds http_duration_bounds = {
    .units = 1000000,
    .count = 11,
    .at = {500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 500000, 1000000, 10000000}};

/* Counts the answer for /metrics, with its duration unless the request waited for something other
 * than the store. Completes the audit record of a change. */
static void count_answer(struct http_exchange *exchange, uint16_t status)
{
    struct http_front *front = exchange->front;
    uint32_t index =
        exchange->route ? (uint32_t)(exchange->route - front->shared->routes) : HTTP_ROUTES_MAX - 1;
    http_count(&front->counters.requests[index][http_status_index(status)], 1);
    if (exchange->change)
        http_change_end(exchange, exchange->outcome);
    if (exchange->waits || !exchange->route)
        return;
    int64_t took_us = http_front_now_us(front) - exchange->started_us;
    buckets_add(&front->counters.durations[index][status / 100 - 2], &http_duration_bounds,
                took_us > 0 ? (uint64_t)took_us : 0);
}

/* ---- end of an exchange ---- */

/* Ends the span of a push that did not reach the queue or was refused as a whole. */
static void span_end(struct http_exchange *exchange)
{
    if (exchange->outcome)
        tracer_end(exchange->front->shared->tracer, exchange->span, exchange->outcome, true);
    else
        trace_span_free(exchange->span);
}

/* Ends what the exchange counts on its connection, which may continue. */
static inline void leave_connection(struct http_exchange *exchange)
{
    struct http_connection *connection = exchange->connection;
    if (!connection)
        return;
    connection->weight -= exchange->weight;
    connection->wait_count -= exchange->is_waiting;
    connection->partial_count -= exchange->is_partial;
    exchange->connection = NULL;
}

void http_exchange_release(struct http_exchange *exchange)
{
    struct http_front *front = exchange->front;
    leave_connection(exchange);
    front->held_waits -= exchange->is_waiting && exchange->caller;
    http_quota_wait_ends(exchange);
    if (exchange->bytes_counted)
        http_budget_remove(front, exchange->bytes_counted);
    if (exchange->is_long)
        long_end(exchange);
    http_front_give_back(front, &exchange->reply);
    http_front_give_back(front, &exchange->note);
    http_front_give_back(front, &exchange->leases);
    http_change_drop(exchange);
    if (exchange->span)
        span_end(exchange);
    access_caller_release(exchange->caller);
    slab_remove(&front->exchanges, exchange->id);
}

/* Returns whether the answer matters to its client alone: it is not audited, and has no leases. */
static bool only_reads(const struct http_exchange *exchange)
{
    return exchange->route && exchange->route->scope == ACCESS_READ;
}

/* Frees a read whose client is gone, and counts it under a status that is never sent. */
static void abandon_read(struct http_exchange *exchange)
{
    count_answer(exchange, HTTP_STATUS_ABANDONED);
    http_exchange_release(exchange);
}

void http_exchange_orphan(struct http_exchange *exchange)
{
    leave_connection(exchange);
    exchange->frames = NULL;
    exchange->next = NULL;
    http_quota_wait_ends(exchange);
    if (exchange->has_leases)
        http_lease_return_noted(exchange);
    if (exchange->waiter)
        waiter_cancel(exchange->front->waiters, exchange->waiter);
    if (exchange->ends)
        ends_cancel(exchange->ends);
    if (exchange->waiter || exchange->ends || exchange->answered)
        http_exchange_release(exchange);
    else if (only_reads(exchange) && !exchange->is_long)
        abandon_read(exchange);
}

/* ---- answers ---- */

struct buffer *http_answer_start(struct http_exchange *exchange)
{
    struct http_front *front = exchange->front;
    buffer_clear(&front->body);
    buffer_clear(&front->fields);
    if (front->trailers.len)
        buffer_clear(&front->trailers);
    return &front->body;
}

static void append_line(struct buffer *lines, const char *name, struct slice value)
{
    buffer_append_text(lines, name);
    BUFFER_PUT(lines, ": ");
    buffer_append_slice(lines, value);
    BUFFER_PUT(lines, "\r\n");
}

void http_answer_field(struct http_exchange *exchange, const char *name, struct slice value)
{
    append_line(&exchange->front->fields, name, value);
}

void http_answer_trailer(struct http_exchange *exchange, const char *name, struct slice value)
{
    if (exchange->frames)
        append_line(&exchange->front->trailers, name, value);
}

/* Returns whether the budget has no memory for the answer. Only an answer to a GET is checked,
 * since the answer to a change must not be dropped. */
static bool answer_is_too_much(const struct http_exchange *exchange)
{
    return exchange->front->body.len > BUDGET_SMALL_BYTES && exchange->route &&
           exchange->route->method == HTTP_METHOD_GET &&
           !http_budget_has(exchange->front, exchange->front->body.len);
}

const char http_json_type[] = "application/json";

void http_answer_end(struct http_exchange *exchange, uint16_t status, const char *content_type)
{
    struct http_front *front = exchange->front;
    if (answer_is_too_much(exchange)) {
        struct http_fault fault;
        http_budget_refuse(front, &fault);
        http_answer_fault(exchange, &fault);
        return;
    }
    if (front->body.failed || front->fields.failed) {
        struct http_fault fault;
        (void)http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "the answer did not fit into memory");
        content_type = "application/problem+json";
        status = http_problem_write(http_answer_start(exchange), &fault);
    }
    count_answer(exchange, exchange->status_counted ? exchange->status_counted : status);
    if (exchange->connection)
        exchange->connection->wire->answer(exchange, status, content_type);
    else
        http_exchange_release(exchange);
    if (front->body.cap > HTTP_SPARE_BYTES_MAX)
        buffer_clear_and_trim(&front->body, HTTP_SPARE_BYTES_MAX);
}

void http_answer_open(struct http_exchange *exchange, const char *content_type)
{
    count_answer(exchange, 200);
    exchange->connection->wire->open(exchange, content_type);
}

void http_answer_write(struct http_exchange *exchange, struct slice text)
{
    if (text.len)
        exchange->connection->wire->write(exchange, text);
}

size_t http_answer_unsent(const struct http_exchange *exchange)
{
    return exchange->connection->wire->unsent(exchange);
}

void http_answer_close(struct http_exchange *exchange)
{
    exchange->connection->wire->close(exchange);
}

static const struct http_format *format_of(const struct http_exchange *exchange)
{
    return exchange->route ? exchange->route->format : NULL;
}

void http_answer_end_json(struct http_exchange *exchange, uint16_t status)
{
    const struct http_format *format = format_of(exchange);
    if (__builtin_expect(format != NULL, 0)) {
        format->json(exchange);
        return;
    }
    buffer_append_byte(&exchange->front->body, '\n');
    http_answer_end(exchange, status, http_json_type);
}

/* Ends a problem. If the server is temporarily unable, adds when to try again. */
static void end_problem(struct http_exchange *exchange, uint16_t status, uint32_t retry_s)
{
    char text[16];
    if (status == 503 && !retry_s)
        retry_s = 1;
    int len = snprintf(text, sizeof text, "%u", retry_s);
    if (retry_s)
        http_answer_field(exchange, "Retry-After", slice_make(text, (size_t)len));
    http_answer_end(exchange, status, "application/problem+json");
}

void http_answer_fault(struct http_exchange *exchange, const struct http_fault *fault)
{
    exchange->outcome = http_problem_code(fault->problem);
    http_quota_note_problem(exchange->front, fault->problem);
    if (exchange->route && exchange->route->refuse) {
        exchange->route->refuse(exchange, fault);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    if (fault->challenge)
        http_answer_field(exchange, "WWW-Authenticate", slice_of(fault->challenge));
    end_problem(exchange, http_problem_write(body, fault), fault->retry_s);
}

void http_answer_problem(struct http_exchange *exchange, enum http_problem problem, uint64_t limit,
                         const char *format, ...)
{
    struct http_fault fault = {.problem = problem, .limit = limit};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(fault.detail, sizeof fault.detail, format, args);
    va_end(args);
    http_answer_fault(exchange, &fault);
}

/* ---- object of a call ---- */

void http_note_subject(struct http_call *call, enum http_subject subject, struct slice id)
{
    struct buffer *note = &call->exchange->note;
    http_front_lend(call->front, note);
    buffer_append_slice(note, call->topic);
    if (subject != HTTP_SUBJECT_TOPIC) {
        buffer_append_byte(note, '\0');
        buffer_append_slice(note, id);
    }
    call->exchange->subject = note->failed ? HTTP_SUBJECT_NONE : subject;
}

/* Returns the topic in the note, which ends at the first zero byte: names of topics do not contain
 * it. */
static struct slice noted_topic(const struct http_exchange *exchange)
{
    const struct buffer *note = &exchange->note;
    const char *end = note->len ? memchr(note->at, '\0', note->len) : NULL;
    return slice_make(note->at, end ? (size_t)(end - note->at) : note->len);
}

/* Describes the missing object, or returns NULL if the call has no single object. */
static const char *describe_missing(const struct http_exchange *exchange, char out[400])
{
    struct slice topic = noted_topic(exchange), id = {0};
    if (exchange->subject == HTTP_SUBJECT_NONE)
        return NULL;
    if (topic.len < exchange->note.len)
        id = slice_make(topic.at + topic.len + 1, exchange->note.len - topic.len - 1);
    if (exchange->subject == HTTP_SUBJECT_TOPIC)
        (void)snprintf(out, 400, "there is no topic '%s'; a push to it creates it",
                       http_quotable(topic, 96));
    else if (exchange->subject == HTTP_SUBJECT_JOB)
        (void)snprintf(out, 400,
                       "there is no job '%s' in topic '%s', or it has finished; check both",
                       http_quotable(id, 96), http_quotable(topic, 96));
    else
        (void)snprintf(out, 400, "there is no dead job '%s' in topic '%s'; check both",
                       http_quotable(id, 96), http_quotable(topic, 96));
    return out;
}

/* Answers with a refusal of the queue in the format of the route. `about` has the limit, the state
 * and the time of another try. */
static void refuse_in_format(struct http_exchange *exchange, const struct queue_result *about,
                             const char *detail)
{
    struct http_refusal refusal;
    http_refusal_of(&refusal, about->status, detail, about->limit);
    refusal.state = about->state;
    refusal.retry_s = about->retry_s || refusal.status != 503 ? about->retry_s : 1;
    format_of(exchange)->refuse(exchange, &refusal);
}

void http_answer_result(struct http_exchange *exchange, const struct queue_result *result)
{
    char missing[400];
    const char *detail = result->detail;
    if (result->status == QUEUE_NOT_FOUND && !detail)
        detail = describe_missing(exchange, missing);
    uint64_t limit = result->status == QUEUE_BODY_TOO_BIG && !result->limit
                         ? exchange->front->options.body_bytes_max
                         : result->limit;
    exchange->outcome = queue_status_code(result->status);
    http_quota_note_refusal(exchange->front, result->status);
    if (format_of(exchange)) {
        refuse_in_format(exchange,
                         &(struct queue_result){.status = result->status,
                                                .limit = limit,
                                                .state = result->state,
                                                .retry_s = result->retry_s},
                         detail);
        return;
    }
    end_problem(exchange,
                http_refusal_write(http_answer_start(exchange), result->status, detail,
                                   result->state, limit),
                result->retry_s);
}

void http_answer_refusal(struct http_exchange *exchange, enum queue_status status,
                         const char *detail, enum job_state state)
{
    http_answer_result(exchange,
                       &(struct queue_result){.status = status, .detail = detail, .state = state});
}

struct http_exchange *http_exchange_replied(struct http_front *front, uint64_t tag,
                                            const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(front, tag);
    if (exchange && !exchange->connection && only_reads(exchange)) {
        abandon_read(exchange);
        return NULL;
    }
    if (!exchange || reply->status == QUEUE_OK)
        return exchange;
    http_answer_refusal(exchange, reply->status, NULL, 0);
    return NULL;
}

void http_answer_no_jobs(struct http_exchange *exchange)
{
    if (format_of(exchange)) {
        (void)format_of(exchange)->begin(exchange);
        format_of(exchange)->end(exchange, (struct slice){0});
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    if (exchange->wants_raw) {
        http_answer_end(exchange, 204, NULL);
        return;
    }
    buffer_append_text(body, "{\"jobs\":[]}");
    http_answer_end_json(exchange, 200);
}

void http_answer_continue(struct http_exchange *exchange)
{
    assert(exchange->connection);
    exchange->connection->wire->proceed(exchange);
}

struct buffer *http_answer_start_affected(struct http_exchange *exchange, uint64_t jobs)
{
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"topic\":");
    json_write_string(body, noted_topic(exchange));
    buffer_append_text(body, ",\"result\":\"ok\",\"jobs\":");
    buffer_append_u64(body, jobs);
    return body;
}

void http_answer_stopped(struct http_exchange *exchange, enum queue_status status, uint64_t jobs)
{
    char detail[300];
    if (!jobs) {
        http_answer_refusal(exchange, status, NULL, 0);
        return;
    }
    (void)snprintf(detail, sizeof detail, "stopped after %" PRIu64 " %s%s: %s", jobs,
                   jobs == 1 ? "job" : "jobs",
                   status == QUEUE_UNAVAILABLE ? "" : ", the rest is unchanged",
                   queue_status_sentence(status));
    exchange->outcome = queue_status_code(status);
    http_quota_note_refusal(exchange->front, status);
    if (format_of(exchange)) {
        refuse_in_format(exchange, &(struct queue_result){.status = status}, detail);
        return;
    }
    end_problem(exchange,
                http_refusal_stopped_write(http_answer_start(exchange), status, detail, jobs), 0);
}

void http_answer_affected(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK) {
        http_answer_stopped(exchange, reply->status, reply->affected);
        return;
    }
    if (format_of(exchange)) {
        format_of(exchange)->affected(exchange, reply->affected, 0, true);
        return;
    }
    buffer_append_byte(http_answer_start_affected(exchange, reply->affected), '}');
    http_answer_end_json(exchange, 200);
}

/* ---- audit of administrative changes: who made each, from which address, and its outcome ---- */

/* Copies what the record needs now, since the client may be gone when the change is done. */
void http_change_begin(struct http_exchange *exchange, const char *action,
                       const struct access_caller *caller, struct slice topic)
{
    char peer[PEER_TEXT_BYTES]; /* the client, or the proxy in front of it */
    peer_emit(&exchange->connection->peer, peer);
    exchange->change = audit_change_begin(
        action, &(struct audit_who){
                    .name = caller->name, .kind = access_kind_name(caller->kind), .peer = peer});
    audit_change_name(exchange->change, topic, (struct slice){0});
}

void http_change_count(struct http_exchange *exchange, uint64_t jobs)
{
    audit_change_count(exchange->change, jobs);
}

void http_change_drop(struct http_exchange *exchange)
{
    audit_change_cancel(exchange->change);
    http_change_end(exchange, NULL);
}

void http_change_end(struct http_exchange *exchange, const char *outcome)
{
    audit_change_end(exchange->change, outcome);
    exchange->change = NULL;
}
