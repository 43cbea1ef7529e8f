/* Dead jobs: purge and redrive of all, of one, or of those that match a filter. */
#include "api/bulk.h"
#include "api/routes.h"
#include "queue/status.h"
#include "queue/sweep.h"

#include <inttypes.h>

static void call_all(struct http_call *call, struct queue_topic_call topic)
{
    topic.topic = call->topic;
    queue_topic(call->front->queue, &topic, http_reply_to(call, http_answer_affected));
}

/* ---- a sweep ---- */

static bool sweep_is_wanted(void *owner, uint64_t tag)
{
    return http_exchange_is_wanted(owner, tag);
}

static void on_swept(void *owner, uint64_t tag, const struct sweep_result *result)
{
    struct http_front *front = owner;
    struct http_exchange *exchange = http_exchange_find(front, tag);
    front->sweep_count--;
    if (!exchange)
        return;
    http_change_count(exchange, result->jobs);
    if (result->status != QUEUE_OK) {
        http_answer_stopped(exchange, result->status, result->jobs);
        return;
    }
    struct buffer *body = http_answer_start_affected(exchange, result->jobs);
    buffer_append_text(body, exchange->is_dry_run ? ",\"dry_run\":true,\"seen\":" : ",\"seen\":");
    buffer_append_u64(body, result->seen);
    buffer_append_text(body, result->is_complete ? ",\"complete\":true}" : ",\"complete\":false}");
    http_answer_end_json(exchange, 200);
}

static bool begin_sweep(struct http_call *call, enum sweep_verb verb, struct http_fault *fault)
{
    struct http_front *front = call->front;
    const struct http_fields *fields = &call->query->fields;
    struct sweep_order order = {
        .verb = fields->dry_run ? SWEEP_COUNT : verb,
        .topic = call->topic,
        .filter = {.error = fields->error,
                   .id_prefix = fields->id_prefix,
                   .died_after_ms = fields->died_after_ms,
                   .died_before_ms = fields->died_before_ms},
        .max = (uint64_t)fields->max,
    };
    if (!http_error_filter_check(fields, fault))
        return false;
    if (front->sweep_count >= HTTP_SWEEPS_MAX)
        return http_fault_set(
            fault, PROBLEM_TOO_MANY_SWEEPS, HTTP_SWEEPS_MAX,
            "%d purges or redrives by a filter are in progress: try again when one has ended",
            HTTP_SWEEPS_MAX);
    call->exchange->is_dry_run = fields->dry_run;
    if (fields->dry_run)
        http_change_drop(call->exchange);
    call->exchange->waits = true; /* not in request durations: depends on the number of jobs */
    if (!sweep_start(front->queue, &order, sweep_is_wanted, on_swept, front,
                     http_exchange_tag(call->exchange)))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    front->sweep_count++;
    return true;
}

static void sweep(struct http_call *call, enum sweep_verb verb)
{
    struct http_fault fault;
    if (!begin_sweep(call, verb, &fault))
        http_answer_fault(call->exchange, &fault);
}

/* ---- calls ---- */

static void purge(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    if (fields->state == JOB_LEASED) {
        http_answer_problem(
            call->exchange, PROBLEM_BAD_OPTION, 0,
            "'state' is 'leased' but must be delayed, ready or dead: leased jobs are not purged");
    } else if (!(fields->set & ~OPTION_BIT(OPTION_STATE))) {
        call_all(call,
                 (struct queue_topic_call){.verb = QUEUE_TOPIC_PURGE, .state = fields->state});
    } else if (fields->state != JOB_DEAD) {
        http_answer_problem(
            call->exchange, PROBLEM_OPTION_CLASH, 0,
            "a filter purges only dead jobs: give state=dead with it, or give only 'state'");
    } else {
        sweep(call, SWEEP_CANCEL);
    }
}

/* Returns whether the body is empty; else answers with a fault. A body without ids must not redrive
 * all jobs. */
static bool body_says_nothing(struct http_call *call)
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

static void redrive(struct http_call *call)
{
    static const uint64_t filter = OPTIONS_FILTER | OPTION_BIT(OPTION_DRY_RUN);
    const struct http_fields *fields = &call->query->fields;
    if (api_bulk_is_named(call->request->body)) {
        api_bulk_redrive(call);
        return;
    }
    if (!body_says_nothing(call))
        return;
    http_note_subject(call, fields->id.len ? HTTP_SUBJECT_DEAD_JOB : HTTP_SUBJECT_TOPIC,
                      fields->id);
    if (!(fields->set & filter)) {
        call_all(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_REDRIVE,
                                                 .id = fields->id,
                                                 .max = (uint64_t)fields->max});
    } else if (fields->id.len) {
        http_answer_problem(call->exchange, PROBLEM_OPTION_CLASH, 0,
                            "'id' and a filter are both given: choose one");
    } else {
        sweep(call, SWEEP_REDRIVE);
    }
}

#define SWEEP (OPTIONS_FILTER | OPTION_BIT(OPTION_MAX) | OPTION_BIT(OPTION_DRY_RUN))

const struct http_route api_dead_routes[] = {
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_TOPIC_PATH "/purge",
     .name = "purge",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "topic purged",
     .handle = purge,
     .options = OPTION_BIT(OPTION_STATE) | SWEEP},
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_TOPIC_PATH "/redrive",
     .name = "redrive",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "topic redriven",
     .handle = redrive,
     .options = OPTION_BIT(OPTION_ID) | SWEEP,
     .body = HTTP_BODY_SMALL},
    {0},
};
