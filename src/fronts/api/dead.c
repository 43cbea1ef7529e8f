/* Dead jobs: purge and redrive of all, of one, or of those that match a filter. */
#include "api/bulk.h"
#include "api/routes.h"
#include "api/sweep.h"

static void call_all(struct http_call *call, struct queue_topic_call topic)
{
    topic.topic = call->topic;
    queue_topic(call->front->queue, &topic, http_reply_to(call, http_answer_affected));
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
