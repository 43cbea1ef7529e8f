/* Dead jobs: purge and redrive of all, of one, or of those that match a filter. */
#include "api/bulk.h"
#include "api/routes.h"
#include "api/sweep.h"

static void call_all(struct http_call *call, struct queue_topic_call topic)
{
    topic.topic = call->topic;
    queue_topic(call->front->queue, &topic, http_reply_to(call, http_answer_affected));
}

/* ---- a purge that only counts ---- */

/* `state` 0: all that a purge without a state removes. */
static uint64_t jobs_in(const struct queue_counts *counts, enum job_state state)
{
    uint64_t delayed = counts->delayed + counts->retrying;
    switch (state) {
    case JOB_DELAYED:
        return delayed;
    case JOB_READY:
        return counts->ready;
    case JOB_DEAD:
        return counts->dead;
    case JOB_FINISHED:
        return counts->finished;
    default:
        return delayed + counts->ready + counts->dead;
    }
}

/* The count has the state. */
static void on_counted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK || !reply->topic_count) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
        return;
    }
    uint64_t jobs = jobs_in(&reply->topics[0].counts, (enum job_state)exchange->count);
    api_sweep_answer(exchange, jobs, jobs, true);
}

static void count_all(struct http_call *call, enum job_state state)
{
    struct http_exchange *exchange = call->exchange;
    exchange->is_dry_run = true;
    http_change_drop(exchange);
    exchange->count = (uint32_t)state;
    queue_topic(call->front->queue,
                &(struct queue_topic_call){.verb = QUEUE_TOPIC_GET, .topic = call->topic},
                http_reply_to(call, on_counted));
}

/* ---- calls ---- */

static void purge(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    http_options filter = fields->set & ~OPTION_BIT(OPTION_STATE);
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    if (fields->state == JOB_LEASED) {
        http_answer_problem(
            call->exchange, PROBLEM_BAD_OPTION, 0,
            "'state' is 'leased' but must be delayed, ready or dead: leased jobs are not purged");
    } else if (fields->dry_run && filter == OPTION_BIT(OPTION_DRY_RUN)) {
        count_all(call, fields->state);
    } else if (!(filter & ~OPTION_BIT(OPTION_DRY_RUN))) {
        call_all(call,
                 (struct queue_topic_call){.verb = QUEUE_TOPIC_PURGE, .state = fields->state});
    } else if (fields->state != JOB_DEAD) {
        http_answer_problem(
            call->exchange, PROBLEM_OPTION_CLASH, 0,
            "a filter purges only dead jobs: give state=dead with it, or give only 'state'");
    } else {
        api_sweep(call, (struct sweep_order){.verb = SWEEP_CANCEL, .scope = SWEEP_DEAD});
    }
}

static void redrive(struct http_call *call)
{
    static const http_options filter = OPTIONS_FILTER | OPTION_BIT(OPTION_DRY_RUN);
    const struct http_fields *fields = &call->query->fields;
    if (api_bulk_is_named(call->request->body)) {
        api_bulk_redrive(call);
        return;
    }
    if (!api_sweep_has_no_body(call))
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
        api_sweep(call, (struct sweep_order){.verb = SWEEP_REDRIVE, .scope = SWEEP_DEAD});
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
