#include "api/jobs.h"

#include "api/await.h"
#include "api/job_json.h"
#include "api/routes.h"
#include "base/json_write.h"
#include "http/exchange.h"
#include "http/query.h"
#include "http/route.h"
#include "queue/locate.h"
#include "queue/search.h"
#include "queue/status.h"

#include <stdlib.h>

/* ---- get and list ---- */

static enum api_view view_of(enum http_bodies bodies)
{
    return bodies == HTTP_BODIES_SHOWN    ? API_VIEW_WHOLE
           : bodies == HTTP_BODIES_BASE64 ? API_VIEW_EXACT
                                          : API_VIEW_LISTED;
}

static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK || reply->job_count == 0) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
        return;
    }
    if (exchange->route->format) {
        exchange->route->format->job(exchange, &reply->jobs[0]);
        return;
    }
    enum api_view view = exchange->bodies ? view_of(exchange->bodies) : API_VIEW_WHOLE;
    api_job_write(http_answer_start(exchange), &reply->jobs[0], view);
    http_answer_end_json(exchange, 200);
}

static void get_job(struct http_call *call)
{
    call->exchange->bodies = call->query->fields.bodies;
    const struct http_fields *fields = &call->query->fields;
    http_note_subject(call, HTTP_SUBJECT_JOB, call->id);
    if (http_fields_have(fields, OPTION_UNTIL) && !slice_is(fields->until, "finished")) {
        http_answer_problem(call->exchange, PROBLEM_BAD_OPTION, 0, "'until' must be finished");
        return;
    }
    if (fields->wait_ms > 0) {
        api_await_job(call, on_got);
        return;
    }
    queue_get_finished(call->front->queue, call->topic, call->id, http_read_reply_to(call, on_got));
}

/* ---- history ---- */

bool api_keeps_history(struct http_exchange *exchange)
{
    struct queue_info info = {0};
    queue_info(exchange->front->queue, &info);
    if (!info.keeps_history)
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "this store keeps no history, use one that does: postgres, mysql");
    return info.keeps_history;
}

static void write_time_member(struct buffer *body, const char *key, int64_t ms)
{
    buffer_append_byte(body, ',');
    json_write_key(body, key);
    json_write_time(body, ms);
}

static void write_text_member(struct buffer *body, const char *key, struct slice text)
{
    if (!text.len)
        return;
    buffer_append_byte(body, ',');
    json_write_key(body, key);
    json_write_string(body, text);
}

static void write_event(struct buffer *body, const struct job *entry)
{
    buffer_append_text(body, "{\"event\":");
    json_write_string(body, entry->content_type);
    write_time_member(body, "at", entry->due_ms);
    buffer_append_text(body, ",\"attempt\":");
    buffer_append_u64(body, entry->attempt);
    if (entry->taken_ms)
        write_time_member(body, "taken_at", entry->taken_ms);
    write_text_member(body, "by", entry->consumer);
    write_text_member(body, "error", entry->error);
    buffer_append_byte(body, '}');
}

static void on_history(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    if (!exchange)
        return;
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"history\":[");
    for (size_t i = 0; i < reply->job_count; i++) {
        if (i)
            buffer_append_byte(body, ',');
        write_event(body, &reply->jobs[i].job);
    }
    buffer_append_text(body, "]}");
    http_answer_end_json(exchange, 200);
}

static void get_history(struct http_call *call)
{
    http_note_subject(call, HTTP_SUBJECT_JOB, call->id);
    if (api_keeps_history(call->exchange))
        queue_history(call->front->queue, call->topic, call->id, http_reply_to(call, on_history));
}

/* Answers a list in the format of its route. */
static void answer_list(struct http_exchange *exchange, const struct queue_reply *reply)
{
    const struct http_format *format = exchange->route->format;
    struct buffer *body = format->begin(exchange);
    for (size_t i = 0; i < reply->job_count; i++)
        format->add_job(body, &reply->jobs[i], view_of(exchange->bodies) != API_VIEW_LISTED);
    format->end(exchange, reply->cursor);
}

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    if (!exchange)
        return;
    if (exchange->route->format) {
        answer_list(exchange, reply);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"jobs\":[");
    for (size_t i = 0; i < reply->job_count; i++) {
        if (i)
            buffer_append_byte(body, ',');
        api_job_write(body, &reply->jobs[i], view_of(exchange->bodies));
    }
    buffer_append_text(body, "],\"cursor\":");
    json_write_string_or_null(body, reply->cursor);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static uint32_t limit_of(const struct http_fields *fields)
{
    enum { LIMIT = 100 };
    return http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : LIMIT;
}

static void list_all(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct queue_list list = {
        .topic = call->topic,
        .state = fields->state,
        .limit = limit_of(fields),
        .cursor = fields->cursor,
        .with_body = view_of(fields->bodies) != API_VIEW_LISTED,
    };
    queue_list(call->front->queue, &list, http_read_reply_to(call, on_listed));
}

/* ---- search ---- */

enum { SEARCH_ANSWER_BYTES_MAX = 512 << 10 }; /* the rest goes to the next page */

/* The results so far of a search. */
struct job_search {
    struct http_front *front;
    struct buffer jobs;
    enum api_view view;
    const struct http_format *format; /* of the route; NULL: JSON */
};

static void on_job_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct job_search *search = owner;
    (void)tag;
    if (search->format) {
        search->format->add_job(&search->jobs, job, search->view != API_VIEW_LISTED);
        return;
    }
    if (search->jobs.len)
        buffer_append_byte(&search->jobs, ',');
    api_job_write(&search->jobs, job, search->view);
}

static bool search_is_wanted(void *owner, uint64_t tag)
{
    const struct job_search *search = owner;
    return search->jobs.len < SEARCH_ANSWER_BYTES_MAX && !search->jobs.failed &&
           http_exchange_is_wanted(search->front, tag);
}

static void write_found(struct buffer *body, const struct job_search *search,
                        const struct search_result *result)
{
    buffer_append_text(body, "{\"jobs\":[");
    buffer_append_slice(body, buffer_slice(&search->jobs));
    buffer_append_text(body, "],\"cursor\":");
    json_write_string_or_null(body, result->cursor);
    buffer_append_text(body, ",\"seen\":");
    buffer_append_u64(body, result->seen);
    buffer_append_byte(body, '}');
    if (search->jobs.failed)
        body->failed = true;
}

static void on_searched(void *owner, uint64_t tag, const struct search_result *result)
{
    struct job_search *search = owner;
    struct http_exchange *exchange = http_exchange_find(search->front, tag);
    if (exchange && result->status != QUEUE_OK) {
        http_answer_refusal(exchange, result->status, NULL, 0);
    } else if (exchange && search->format) {
        buffer_append_slice(search->format->begin(exchange), buffer_slice(&search->jobs));
        search->format->end(exchange, result->cursor);
    } else if (exchange) {
        write_found(http_answer_start(exchange), search, result);
        http_answer_end_json(exchange, 200);
    }
    buffer_fini(&search->jobs);
    free(search);
}

static bool begin_search(struct http_call *call, struct http_fault *fault)
{
    const struct http_fields *fields = &call->query->fields;
    struct search_order order = {
        .topic = call->topic,
        .state = fields->state,
        .filter = {.id_prefix = fields->id_prefix, .error = fields->error},
        .cursor = fields->cursor,
        .limit = limit_of(fields),
        .with_body = view_of(fields->bodies) != API_VIEW_LISTED,
    };
    (void)http_meta_split(fields->meta, &order.filter.meta_name, &order.filter.meta_value);
    if (!http_error_filter_check(fields, fault))
        return false;
    struct job_search *search = calloc(1, sizeof *search);
    if (!search)
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    search->front = call->front;
    search->view = view_of(fields->bodies);
    search->format = call->exchange->route->format;
    buffer_init(&search->jobs, HTTP_OUT_BYTES_MAX);
    struct search_listener listener = {.found = on_job_found,
                                       .wanted = search_is_wanted,
                                       .done = on_searched,
                                       .owner = search,
                                       .tag = http_exchange_tag(call->exchange)};
    if (search_start(call->front->queue, &order, &listener))
        return true;
    free(search);
    return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

static void list_jobs(struct http_call *call)
{
    struct http_fault fault;
    call->exchange->bodies = call->query->fields.bodies;
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    if (!(call->query->fields.set & OPTIONS_SEARCH))
        list_all(call);
    else if (!begin_search(call, &fault))
        http_answer_fault(call->exchange, &fault);
}

/* ---- a job by its id, in all topics that the caller may see ---- */

enum { LOCATE_JOBS = 100, LOCATE_ANSWER_BYTES_MAX = 8 << 20 };

/* The results so far of a call. */
struct locating {
    struct http_front *front;
    struct buffer jobs;
    enum api_view view;
};

static bool locate_looks_at(void *owner, uint64_t tag, struct slice topic)
{
    const struct locating *locating = owner;
    const struct http_exchange *exchange = http_exchange_find(locating->front, tag);
    return exchange && access_may(exchange->caller, exchange->route->scope, topic);
}

static void locate_on_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct locating *locating = owner;
    (void)tag;
    if (locating->jobs.len)
        buffer_append_byte(&locating->jobs, ',');
    api_job_write(&locating->jobs, job, locating->view);
}

static bool locate_is_wanted(void *owner, uint64_t tag)
{
    const struct locating *locating = owner;
    return locating->jobs.len < LOCATE_ANSWER_BYTES_MAX && !locating->jobs.failed &&
           http_exchange_is_wanted(locating->front, tag);
}

static void locate_on_done(void *owner, uint64_t tag, const struct locate_result *result)
{
    struct locating *locating = owner;
    struct http_exchange *exchange = http_exchange_find(locating->front, tag);
    if (exchange && result->status != QUEUE_OK) {
        http_answer_refusal(exchange, result->status, NULL, (enum job_state)0);
    } else if (exchange) {
        struct buffer *body = http_answer_start(exchange);
        buffer_append_text(body, "{\"jobs\":[");
        buffer_append_slice(body, buffer_slice(&locating->jobs));
        buffer_append_text(body,
                           result->is_complete ? "],\"complete\":true}" : "],\"complete\":false}");
        body->failed |= locating->jobs.failed;
        http_answer_end_json(exchange, 200);
    }
    buffer_fini(&locating->jobs);
    free(locating);
}

static void locate_job(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct http_exchange *exchange = call->exchange;
    if (!job_id_is_valid(call->id)) {
        http_answer_refusal(exchange, QUEUE_BAD_ID, NULL, (enum job_state)0);
        return;
    }
    struct locating *locating = calloc(1, sizeof *locating);
    if (locating) {
        locating->front = call->front;
        locating->view = view_of(fields->bodies);
        buffer_init(&locating->jobs, HTTP_OUT_BYTES_MAX);
        http_gate_keep(exchange, call->caller);
        const struct locate_listener listener = {.looks_at = locate_looks_at,
                                                 .found = locate_on_found,
                                                 .wanted = locate_is_wanted,
                                                 .done = locate_on_done,
                                                 .owner = locating,
                                                 .tag = http_exchange_tag(exchange),
                                                 .finished = true};
        uint32_t limit =
            http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : LOCATE_JOBS;
        if (locate_start(call->front->queue, call->id, limit, &listener))
            return;
        free(locating);
    }
    http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
}

/* ---- changes ---- */

static void on_changed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    const struct queue_result *result = reply->results;
    if (!exchange)
        return;
    if (!queue_status_is_success(result->status)) {
        http_answer_result(exchange, result);
        return;
    }
    if (exchange->route->format) {
        exchange->route->format->result(exchange, result);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_byte(body, '{');
    api_result_members_write(body, result);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, result->status == QUEUE_REQUESTED ? 202 : 200);
}

static void change_job(struct http_call *call, struct queue_change change)
{
    http_note_subject(call, HTTP_SUBJECT_JOB, call->id);
    change.topic = call->topic;
    change.id = call->id;
    queue_change(call->front->queue, &change, 1, http_reply_to(call, on_changed));
}

static void reschedule_job(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    if (!fields->set) {
        http_answer_problem(call->exchange, PROBLEM_OPTION_MISSING, 0,
                            "nothing to change: give 'delay', 'at' or 'priority'");
        return;
    }
    change_job(call,
               (struct queue_change){
                   .verb = QUEUE_RESCHEDULE,
                   .when = http_fields_when(fields, QUEUE_DUE_UNCHANGED),
                   .priority = http_fields_have(fields, OPTION_PRIORITY) ? (int32_t)fields->priority
                                                                         : QUEUE_PRIORITY_UNSET,
               });
}

/* Handles cancel and run. The verb of the route is the enum queue_change_verb. */
static void call_job(struct http_call *call)
{
    change_job(call,
               (struct queue_change){.verb = (enum queue_change_verb)call->exchange->route->verb,
                                     .when = {.due = QUEUE_DUE_UNCHANGED},
                                     .priority = QUEUE_PRIORITY_UNSET,
                                     .request = call->query->fields.request,
                                     .members = call->query->fields.cancel_members});
}

#define LIST                                                                                       \
    (OPTION_BIT(OPTION_STATE) | OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_CURSOR) |             \
     OPTION_BIT(OPTION_BODY) | OPTIONS_SEARCH)

const struct http_route api_jobs_routes[] = {
    {.method = HTTP_METHOD_DELETE,
     .pattern = HTTP_JOB_PATH,
     .name = "cancel",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_PATH,
     .handle = call_job,
     .options = OPTION_BIT(OPTION_REQUEST) | OPTION_BIT(OPTION_CANCEL_MEMBERS),
     .verb = QUEUE_CANCEL},
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_JOB_PATH,
     .name = "get",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = get_job,
     .options = OPTION_BIT(OPTION_BODY) | OPTION_BIT(OPTION_WAIT) | OPTION_BIT(OPTION_UNTIL),
     .answer = HTTP_ANSWER_JOB},
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_JOB_PATH "/history",
     .name = "history",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = get_history,
     .answer = HTTP_ANSWER_LONG},
    {.method = HTTP_METHOD_PATCH,
     .pattern = HTTP_JOB_PATH,
     .name = "reschedule",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_PATH,
     .handle = reschedule_job,
     .options = OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_AT) | OPTION_BIT(OPTION_PRIORITY)},
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_JOB_PATH "/run",
     .name = "run",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_PATH,
     .handle = call_job,
     .verb = QUEUE_RUN},
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_JOB_PATH "/close",
     .name = "close",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_PATH,
     .handle = call_job,
     .verb = QUEUE_CLOSE},
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_JOBS_PATH,
     .name = "list",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = list_jobs,
     .options = LIST,
     .answer = HTTP_ANSWER_LONG},
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/jobs/{id}",
     .name = "locate",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN,
     .handle = locate_job,
     .options = OPTION_BIT(OPTION_BODY) | OPTION_BIT(OPTION_LIMIT),
     .answer = HTTP_ANSWER_LONG},
    {0},
};
