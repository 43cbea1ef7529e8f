/* A pass over a topic's dead jobs, from its control job to that one's answer. */
#include "base/clock.h"
#include "base/json_read.h"
#include "base/log.h"
#include "deliver/deliver.h"
#include "deliver/keeper_private.h"

#include <stdlib.h>

struct slice pass_topic(const struct pass *pass)
{
    return slice_make(pass->topic, pass->topic_bytes);
}

/* ---- the end ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    (void)tag;
    (void)reply; /* where it was not carried out the lease ends, and the pass is made again */
    keeper_replied(keeper);
    keeper->has_pass = false;
    keeper_next(keeper);
}

static void end(struct keeper *keeper, struct queue_answer answer)
{
    struct pass *pass = &keeper->pass;
    answer.lease = slice_make(pass->lease, pass->lease_bytes);
    keeper->options.queue->ops->answer(keeper->options.queue, &answer, 1,
                                       keeper_reply_to(keeper, on_answered));
    dead_letter_fini(&pass->rules);
    free(pass->step);
    pass->step = NULL;
}

void keeper_pass_done(struct keeper *keeper)
{
    int64_t now_ms = clock_inner_ms(), again_ms = keeper->pass.again_ms;
    if (keeper->is_stopping)
        again_ms = now_ms; /* another server may go on */
    if (again_ms == INT64_MAX)
        end(keeper, (struct queue_answer){.verb = QUEUE_ACK, .delay_ms = -1});
    else
        end(keeper, (struct queue_answer){.verb = QUEUE_RETURN,
                                          .delay_ms = again_ms > now_ms ? again_ms - now_ms : 1});
}

void keeper_pass_fail(struct keeper *keeper, const char *error)
{
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    memcpy(topic, keeper->pass.topic, keeper->pass.topic_bytes);
    topic[keeper->pass.topic_bytes] = 0;
    const char *name = topic;
    log_event(LOG_WARN, "dead letters wait", LOG_TEXT("topic", name), LOG_TEXT("error", error));
    end(keeper,
        (struct queue_answer){.verb = QUEUE_NACK, .delay_ms = -1, .error = slice_of(error)});
}

void keeper_pass_again(struct keeper *keeper, int64_t at_ms)
{
    if (at_ms < keeper->pass.again_ms)
        keeper->pass.again_ms = at_ms;
}

static void on_extended(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    (void)tag;
    (void)reply; /* where it had ended another pass repeats this one's steps, which does no harm */
    keeper_replied(keeper);
    keeper_check_stopped(keeper);
}

void keeper_pass_extend(struct keeper *keeper, int64_t ms)
{
    struct pass *pass = &keeper->pass;
    const struct queue_answer extend = {
        .verb = QUEUE_EXTEND, .lease = slice_make(pass->lease, pass->lease_bytes), .lease_ms = ms};
    if (pass->lease_until_ms >= clock_inner_ms() + ms)
        return;
    pass->lease_until_ms = clock_inner_ms() + ms;
    keeper->options.queue->ops->answer(keeper->options.queue, &extend, 1,
                                       keeper_reply_to(keeper, on_extended));
}

bool keeper_pass_is_over(struct keeper *keeper)
{
    int64_t now_ms = clock_inner_ms();
    if (now_ms < keeper->pass.until_ms && !keeper->is_stopping) {
        if (keeper->pass.lease_until_ms < now_ms + KEEPER_LEASE_MS / 2)
            keeper_pass_extend(keeper, KEEPER_LEASE_MS);
        return false;
    }
    keeper_pass_again(keeper, now_ms);
    return true;
}

/* ---- the beginning ---- */

/* The rules in force now: they may have changed since the control job was pushed. */
static bool read_rules(struct slice extension, struct dead_letter *out)
{
    char error[DELIVER_ERROR_BYTES];
    struct json_value object, value;
    struct json_cursor cursor = {0};
    struct slice key;
    if (!json_check(extension, &object, NULL) || object.kind != JSON_OBJECT)
        return false;
    while (json_next_member(object, &cursor, &key, &value))
        if (json_string_is(key, "dead_letter"))
            return dead_letter_parse(value.raw, out, error);
    return false;
}

bool keeper_pass_counts(struct keeper *keeper, const struct queue_reply *reply)
{
    keeper_replied(keeper);
    if (reply->status == QUEUE_OK && reply->topic_count == 1) {
        keeper->pass.counts = reply->topics[0].counts;
        return true;
    }
    if (reply->status == QUEUE_NOT_FOUND)
        keeper_pass_done(keeper);
    else
        keeper_pass_fail(keeper, "the queue did not show the topic");
    return false;
}

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct keeper *keeper = owner;
    struct pass *pass = &keeper->pass;
    (void)tag;
    if (!keeper_pass_counts(keeper, reply))
        return;
    pass->died = reply->topics[0].totals.died;
    if (!read_rules(reply->topics[0].settings.extension, &pass->rules) ||
        keeper_pass_is_over(keeper)) {
        keeper_pass_done(keeper);
        return;
    }
    keeper_alert(keeper);
}

void keeper_pass_begin(struct keeper *keeper, const struct queue_job *job)
{
    struct pass *pass = &keeper->pass;
    int64_t now_ms = clock_inner_ms();
    *pass = (struct pass){
        .lease_until_ms = now_ms, .until_ms = now_ms + KEEPER_PASS_MS, .again_ms = INT64_MAX};
    keeper->has_pass = true;
    memcpy(pass->lease, job->lease.at, job->lease.len);
    pass->lease_bytes = job->lease.len;
    if (!job_topic_is_valid(job->job.body)) { /* not pushed by a keeper */
        end(keeper, (struct queue_answer){.verb = QUEUE_NACK,
                                          .final = true,
                                          .delay_ms = -1,
                                          .error = slice_of("not the name of a topic")});
        return;
    }
    memcpy(pass->topic, job->job.body.at, job->job.body.len);
    pass->topic_bytes = job->job.body.len;
    pass->kept = keeper_find(keeper, pass_topic(pass));
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = pass_topic(pass)};
    keeper->options.queue->ops->topic(keeper->options.queue, &get,
                                      keeper_reply_to(keeper, on_topic));
}
