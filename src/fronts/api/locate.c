/* Finds jobs with a given id in all topics that the caller may see. */
#include "queue/locate.h"
#include "api/job_json.h"
#include "api/routes.h"
#include "http/exchange.h"
#include "queue/queue.h"

#include <stdlib.h>

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
        locating->view = fields->bodies == HTTP_BODIES_SHOWN    ? API_VIEW_WHOLE
                         : fields->bodies == HTTP_BODIES_BASE64 ? API_VIEW_EXACT
                                                                : API_VIEW_LISTED;
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

const struct http_route api_locate_routes[] = {
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
