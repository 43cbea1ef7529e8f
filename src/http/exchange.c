#include "http/private.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

/* ---- found again by a tag ---- */

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
    exchange->started_us = http_front_now_us(front);
    if (connection->last)
        connection->last->next = exchange;
    else
        connection->first = exchange;
    connection->last = exchange;
    connection->exchange_count++;
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

static void release(struct http_exchange *exchange)
{
    struct http_front *front = exchange->front;
    if (exchange->connection)
        exchange->connection->weight -= exchange->weight;
    if (exchange->is_long || exchange->bytes_counted)
        http_admission_end(exchange);
    http_front_give_back(front, &exchange->reply);
    http_front_give_back(front, &exchange->note);
    free(exchange->change);
    slab_remove(&front->exchanges, exchange->id);
}

void http_exchange_orphan(struct http_exchange *exchange)
{
    exchange->connection = NULL;
    exchange->next = NULL;
    if (exchange->has_leases)
        http_lease_return_note(exchange);
    if (exchange->waiter)
        waiter_cancel(exchange->front->waiters, exchange->waiter);
    if (exchange->waiter || exchange->answered)
        release(exchange);
}

/* ---- answers, in the order of the requests ---- */

static const char *date_of(struct http_front *front)
{
    if (front->has_date)
        return front->date;
    front->has_date = true;
    int64_t now_s = clock_wall_ms() / 1000;
    if (now_s != front->date_s) {
        struct tm parts;
        time_t time = (time_t)now_s;
        (void)gmtime_r(&time, &parts);
        (void)strftime(front->date, sizeof front->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        front->date_s = now_s;
    }
    return front->date;
}

static void count_answer(const struct http_exchange *exchange, uint16_t status)
{
    struct http_front *front = exchange->front;
    uint32_t index = exchange->route ? http_route_index(exchange->route) : HTTP_ROUTES_MAX - 1;
    http_count(&front->counters.requests[index][status / 100], 1);
    if (exchange->waits || !exchange->route)
        return;
    int64_t took_us = http_front_now_us(front) - exchange->started_us;
    pthread_mutex_lock(&front->lock);
    histogram_add(&front->durations, took_us > 0 ? (uint64_t)took_us : 0);
    pthread_mutex_unlock(&front->lock);
}

/* Where this exchange's answer goes: to the socket if it is its turn. */
static struct buffer *outlet(struct http_exchange *exchange)
{
    struct http_connection *connection = exchange->connection;
    struct buffer *out = connection->first == exchange ? &connection->out : &exchange->reply;
    http_front_lend(exchange->front, out);
    return out;
}

static void finish(struct http_exchange *exchange)
{
    struct http_connection *connection = exchange->connection;
    exchange->answered = true;
    exchange->waiter = 0;
    if (connection->first != exchange) {
        exchange->bytes_counted += exchange->reply.cap;
        http_budget_add(exchange->front, exchange->reply.cap);
        return;
    }
    for (struct http_exchange *first = exchange; first && first->answered;) {
        connection->first = first->next;
        connection->exchange_count--;
        if (first->reply.len) {
            http_front_lend(first->front, &connection->out);
            buffer_append_slice(&connection->out, buffer_slice(&first->reply));
        }
        if (first->reply.failed)
            connection->out.failed = true;
        if (first->has_leases)
            http_lease_hand_over(first, connection->out.failed
                                            ? UINT64_MAX
                                            : connection->out_at + connection->out.len);
        release(first);
        first = connection->first;
    }
    if (!connection->first)
        connection->last = NULL;
    http_connection_touch(connection);
}

struct buffer *http_answer_start(struct http_exchange *exchange)
{
    struct http_front *front = exchange->front;
    buffer_clear(&front->body);
    buffer_clear(&front->fields);
    return &front->body;
}

void http_answer_field(struct http_exchange *exchange, const char *name, struct slice value)
{
    struct buffer *fields = &exchange->front->fields;
    buffer_append_text(fields, name);
    buffer_append(fields, ": ", 2);
    buffer_append_slice(fields, value);
    buffer_append(fields, "\r\n", 2);
}

static void answer(struct http_exchange *exchange, uint16_t status, const char *content_type)
{
    struct http_front *front = exchange->front;
    struct http_connection *connection = exchange->connection;
    bool closes = connection->is_closing && !exchange->next;
    struct http_response response = {
        .status = status,
        .content_type = content_type,
        .fields = buffer_slice(&front->fields),
        .body_bytes = front->body.len,
        .closes = closes,
        .keeps = exchange->is_http_1_0 && !closes,
    };
    struct buffer *out = outlet(exchange);
    http_response_write(out, date_of(front), &response);
    if (!exchange->is_head && content_type)
        buffer_append_slice(out, buffer_slice(&front->body));
    finish(exchange);
}

/* Only an answer that changed nothing may be left out. */
static bool is_too_much(const struct http_exchange *exchange)
{
    return exchange->front->body.len > HTTP_BUDGET_SMALL_BYTES && exchange->route &&
           exchange->route->method == HTTP_METHOD_GET &&
           !http_budget_has(exchange->front, exchange->front->body.len);
}

void http_answer_end(struct http_exchange *exchange, uint16_t status, const char *content_type)
{
    struct http_front *front = exchange->front;
    if (is_too_much(exchange)) {
        struct http_fault fault;
        http_budget_refuse(front, &fault);
        http_answer_fault(exchange, &fault);
        return;
    }
    if (front->body.failed || front->fields.failed) {
        struct http_fault fault;
        (void)http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "the answer did not fit into memory");
        status = http_problem_status(fault.problem);
        content_type = "application/problem+json";
        http_problem_write(http_answer_start(exchange), &fault);
    }
    count_answer(exchange, status);
    if (exchange->connection)
        answer(exchange, status, content_type);
    else
        release(exchange);
    if (front->body.cap > HTTP_SPARE_BYTES_MAX)
        buffer_shrink(&front->body, HTTP_SPARE_BYTES_MAX);
}

void http_answer_end_json(struct http_exchange *exchange, uint16_t status)
{
    buffer_append_byte(&exchange->front->body, '\n');
    http_answer_end(exchange, status, "application/json");
}

static void end_problem(struct http_exchange *exchange, uint16_t status)
{
    if (status == 503)
        http_answer_field(exchange, "Retry-After", slice_of("1"));
    http_answer_end(exchange, status, "application/problem+json");
}

void http_answer_fault(struct http_exchange *exchange, const struct http_fault *fault)
{
    http_problem_write(http_answer_start(exchange), fault);
    end_problem(exchange, http_problem_status(fault->problem));
}

/* ---- what a call is about ---- */

void http_note_subject(struct http_call *call, enum http_subject subject, struct slice id)
{
    struct buffer *note = &call->exchange->note;
    http_front_lend(call->front, note);
    buffer_append_slice(note, call->topic);
    if (subject != HTTP_SUBJECT_TOPIC) {
        buffer_append_byte(note, '/');
        buffer_append_slice(note, id);
    }
    call->exchange->subject = note->failed ? HTTP_SUBJECT_NONE : subject;
}

/* No slash is in a topic's name. */
struct slice http_noted_topic(const struct http_exchange *exchange)
{
    const struct buffer *note = &exchange->note;
    const char *slash = note->len ? memchr(note->at, '/', note->len) : NULL;
    return slice_make(note->at, slash ? (size_t)(slash - note->at) : note->len);
}

/* What is not there; NULL: the call has no one subject. */
static const char *describe_missing(const struct http_exchange *exchange, char out[400])
{
    struct slice topic = http_noted_topic(exchange), id = {0};
    if (exchange->subject == HTTP_SUBJECT_NONE)
        return NULL;
    if (topic.len < exchange->note.len)
        id = slice_make(topic.at + topic.len + 1, exchange->note.len - topic.len - 1);
    if (exchange->subject == HTTP_SUBJECT_TOPIC)
        (void)snprintf(out, 400, "there is no topic '%s'; a push to it makes one",
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

void http_answer_refusal(struct http_exchange *exchange, enum queue_status status,
                         const char *detail, enum job_state state)
{
    char missing[400];
    if (status == QUEUE_NOT_FOUND && !detail)
        detail = describe_missing(exchange, missing);
    uint64_t limit = status == QUEUE_BODY_TOO_BIG ? exchange->front->options.body_bytes_max : 0;
    http_refusal_write(http_answer_start(exchange), status, detail, state, limit);
    end_problem(exchange, http_refusal_status(status));
}

void http_answer_no_jobs(struct http_exchange *exchange)
{
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
    buffer_append_text(outlet(exchange), "HTTP/1.1 100 Continue\r\n\r\n");
    finish(exchange);
}
