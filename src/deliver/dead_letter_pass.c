/* A pass over a topic's dead jobs, from its control job to that one's answer. */
#include "base/clock.h"
#include "base/json_read.h"
#include "base/log.h"
#include "deliver/dead_letter_private.h"
#include "deliver/deliver.h"

#include <stdlib.h>

struct slice pass_topic(const struct pass *pass)
{
    return slice_make(pass->topic, pass->topic_bytes);
}

/* ---- the end ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    (void)reply; /* where it was not carried out the lease ends, and the pass is made again */
    dead_letter_worker_replied(worker);
    worker->has_pass = false;
    dead_letter_worker_next(worker);
}

static void end(struct dead_letter_worker *worker, struct queue_answer answer)
{
    struct pass *pass = &worker->pass;
    answer.lease = slice_make(pass->lease, pass->lease_bytes);
    queue_answer(worker->options.queue, &answer, 1,
                 dead_letter_worker_reply_to(worker, on_answered));
    dead_letter_fini(&pass->rules);
    free(pass->step);
    pass->step = NULL;
}

void dead_letter_pass_done(struct dead_letter_worker *worker)
{
    int64_t now_ms = clock_inner_ms(), again_ms = worker->pass.again_ms;
    if (worker->is_stopping)
        again_ms = now_ms; /* another server may go on */
    if (again_ms == INT64_MAX)
        end(worker, (struct queue_answer){.verb = QUEUE_ACK, .delay_ms = -1});
    else
        end(worker, (struct queue_answer){.verb = QUEUE_RETURN,
                                          .delay_ms = again_ms > now_ms ? again_ms - now_ms : 1});
}

void dead_letter_pass_fail(struct dead_letter_worker *worker, const char *error)
{
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    memcpy(topic, worker->pass.topic, worker->pass.topic_bytes);
    topic[worker->pass.topic_bytes] = 0;
    const char *name = topic;
    log_event(LOG_WARN, "dead letters wait", LOG_TEXT("topic", name), LOG_TEXT("error", error));
    end(worker,
        (struct queue_answer){.verb = QUEUE_NACK, .delay_ms = -1, .error = slice_of(error)});
}

void dead_letter_pass_again(struct dead_letter_worker *worker, int64_t at_ms)
{
    if (at_ms < worker->pass.again_ms)
        worker->pass.again_ms = at_ms;
}

static void on_extended(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    (void)reply; /* where it had ended another pass repeats this one's steps, which does no harm */
    dead_letter_worker_replied(worker);
    dead_letter_worker_check_stopped(worker);
}

void dead_letter_pass_extend(struct dead_letter_worker *worker, int64_t ms)
{
    struct pass *pass = &worker->pass;
    const struct queue_answer extend = {
        .verb = QUEUE_EXTEND, .lease = slice_make(pass->lease, pass->lease_bytes), .lease_ms = ms};
    if (pass->lease_until_ms >= clock_inner_ms() + ms)
        return;
    pass->lease_until_ms = clock_inner_ms() + ms;
    queue_answer(worker->options.queue, &extend, 1,
                 dead_letter_worker_reply_to(worker, on_extended));
}

bool dead_letter_pass_is_over(struct dead_letter_worker *worker)
{
    int64_t now_ms = clock_inner_ms();
    if (now_ms < worker->pass.until_ms && !worker->is_stopping) {
        if (worker->pass.lease_until_ms < now_ms + DEAD_LETTER_LEASE_MS / 2)
            dead_letter_pass_extend(worker, DEAD_LETTER_LEASE_MS);
        return false;
    }
    dead_letter_pass_again(worker, now_ms);
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

bool dead_letter_pass_counts(struct dead_letter_worker *worker, const struct queue_reply *reply)
{
    dead_letter_worker_replied(worker);
    if (reply->status == QUEUE_OK && reply->topic_count == 1) {
        worker->pass.counts = reply->topics[0].counts;
        return true;
    }
    if (reply->status == QUEUE_NOT_FOUND)
        dead_letter_pass_done(worker);
    else
        dead_letter_pass_fail(worker, "the queue did not show the topic");
    return false;
}

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct pass *pass = &worker->pass;
    (void)tag;
    if (!dead_letter_pass_counts(worker, reply))
        return;
    pass->died = reply->topics[0].totals.died;
    if (!read_rules(reply->topics[0].settings.extension, &pass->rules) ||
        dead_letter_pass_is_over(worker)) {
        dead_letter_pass_done(worker);
        return;
    }
    dead_letter_alert(worker);
}

void dead_letter_pass_begin(struct dead_letter_worker *worker, const struct queue_job *job)
{
    struct pass *pass = &worker->pass;
    int64_t now_ms = clock_inner_ms();
    *pass = (struct pass){
        .lease_until_ms = now_ms, .until_ms = now_ms + DEAD_LETTER_PASS_MS, .again_ms = INT64_MAX};
    worker->has_pass = true;
    memcpy(pass->lease, job->lease.at, job->lease.len);
    pass->lease_bytes = job->lease.len;
    if (!job_topic_is_valid(job->job.body)) { /* not pushed by a worker */
        end(worker, (struct queue_answer){.verb = QUEUE_NACK,
                                          .final = true,
                                          .delay_ms = -1,
                                          .error = slice_of("not the name of a topic")});
        return;
    }
    memcpy(pass->topic, job->job.body.at, job->job.body.len);
    pass->topic_bytes = job->job.body.len;
    pass->kept = dead_letter_worker_find(worker, pass_topic(pass));
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = pass_topic(pass)};
    queue_topic(worker->options.queue, &get, dead_letter_worker_reply_to(worker, on_topic));
}
