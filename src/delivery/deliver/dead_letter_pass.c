#include "deliver/dead_letter_pass.h"

#include "base/clock.h"
#include "base/log.h"
#include "deliver/check.h"

#include <stdlib.h>

/* ---- queue calls ---- */

bool dead_letter_is_pushed(const struct queue_reply *reply)
{
    if (reply->status != QUEUE_OK || reply->result_count != 1)
        return false;
    enum queue_status status = reply->results[0].status;
    return status == QUEUE_CREATED || status == QUEUE_REPLACED || status == QUEUE_EXISTED;
}

void dead_letter_count(struct dead_letter_worker *worker, uint64_t *counter, uint64_t step)
{
    pthread_mutex_lock(&worker->lock);
    *counter += step;
    pthread_mutex_unlock(&worker->lock);
}

void dead_letter_check_stopped(struct dead_letter_worker *worker)
{
    if (worker->is_stopping && worker->stopped && !worker->has_pass && !worker->calls &&
        !worker->alert_runs.count)
        reactor_once_at_iteration_end(worker->options.reactor, &worker->stop_call);
}

/* ---- the end ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    (void)reply; /* if this failed, the lease ends and the pass is repeated */
    dead_letter_replied(worker);
    worker->has_pass = false;
    if (worker->pass.is_done && worker->pass.figures)
        worker->pass.figures->is_out = false;
    worker->pass_ended(worker);
}

static void pass_answer(struct dead_letter_worker *worker, struct queue_answer answer)
{
    struct dead_letter_pass *pass = &worker->pass;
    answer.lease = slice_make(pass->lease, pass->lease_bytes);
    queue_answer(worker->options.queue, &answer, 1, dead_letter_reply_to(worker, on_answered));
    dead_letter_fini(&pass->rules);
    free(pass->step);
    pass->step = NULL;
}

static void pass_done(struct dead_letter_worker *worker)
{
    int64_t now_ms = clock_inner_ms(), again_ms = worker->pass.again_ms;
    if (worker->is_stopping)
        again_ms = now_ms; /* another server may continue */
    worker->pass.is_done = again_ms == INT64_MAX;
    if (again_ms == INT64_MAX)
        pass_answer(worker, (struct queue_answer){.verb = QUEUE_ACK, .delay_ms = -1});
    else
        pass_answer(worker,
                    (struct queue_answer){.verb = QUEUE_RETURN,
                                          .delay_ms = again_ms > now_ms ? again_ms - now_ms : 1});
}

void dead_letter_pass_next(struct dead_letter_worker *worker)
{
    struct dead_letter_pass *pass = &worker->pass;
    dead_letter_step *step = *pass->next_step;
    free(pass->step);
    pass->step = NULL;
    if (!step) {
        pass_done(worker);
        return;
    }
    pass->next_step++;
    step(worker);
}

void dead_letter_pass_fail(struct dead_letter_worker *worker, const char *error)
{
    struct slice topic = dead_letter_pass_topic(&worker->pass);
    char name[JOB_TOPIC_BYTES_MAX + 1];
    (void)snprintf(name, sizeof name, "%.*s", (int)topic.len, topic.at);
    log_event(LOG_WARN, "dead letters wait", LOG_TEXT("topic", name), LOG_TEXT("error", error));
    pass_answer(worker, (struct queue_answer){
                            .verb = QUEUE_NACK, .delay_ms = -1, .error = slice_of(error)});
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
    /* if the lease had ended, another pass repeats the steps of this one, which is harmless */
    (void)reply;
    dead_letter_replied(worker);
    dead_letter_check_stopped(worker);
}

/* Extends the lease so that it lasts for at least `ms`. */
static void pass_extend(struct dead_letter_worker *worker, int64_t ms)
{
    struct dead_letter_pass *pass = &worker->pass;
    const struct queue_answer extend = {
        .verb = QUEUE_EXTEND, .lease = slice_make(pass->lease, pass->lease_bytes), .lease_ms = ms};
    if (pass->lease_until_ms >= clock_inner_ms() + ms)
        return;
    pass->lease_until_ms = clock_inner_ms() + ms;
    queue_answer(worker->options.queue, &extend, 1, dead_letter_reply_to(worker, on_extended));
}

bool dead_letter_pass_is_over(struct dead_letter_worker *worker)
{
    int64_t now_ms = clock_inner_ms();
    if (now_ms < worker->pass.until_ms && !worker->is_stopping) {
        if (worker->pass.lease_until_ms < now_ms + DEAD_LETTER_LEASE_MS / 2)
            pass_extend(worker, DEAD_LETTER_LEASE_MS);
        return false;
    }
    dead_letter_pass_again(worker, now_ms);
    return true;
}

/* ---- the beginning ---- */

/* Reads the current rules, which may have changed since the control job was pushed. */
static bool read_rules(struct slice text, struct dead_letter *out)
{
    char error[DELIVER_ERROR_BYTES];
    struct extension extension;
    return extension_parse(text, &extension, error) && extension.dead_letter.len > 0 &&
           dead_letter_parse(extension.dead_letter, out, error);
}

bool dead_letter_pass_read_counts(struct dead_letter_worker *worker,
                                  const struct queue_reply *reply)
{
    dead_letter_replied(worker);
    if (reply->status == QUEUE_OK && reply->topic_count == 1) {
        worker->pass.counts = reply->topics[0].counts;
        return true;
    }
    if (reply->status == QUEUE_NOT_FOUND)
        pass_done(worker);
    else
        dead_letter_pass_fail(worker, "the queue did not return the topic");
    return false;
}

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct dead_letter_pass *pass = &worker->pass;
    (void)tag;
    if (!dead_letter_pass_read_counts(worker, reply))
        return;
    pass->died = reply->topics[0].totals.died;
    if (!read_rules(reply->topics[0].settings.extension, &pass->rules) ||
        dead_letter_pass_is_over(worker))
        pass_done(worker);
    else
        dead_letter_pass_next(worker);
}

void dead_letter_pass_begin(struct dead_letter_worker *worker, const struct queue_job *job,
                            dead_letter_step *const *steps)
{
    struct dead_letter_pass *pass = &worker->pass;
    struct slice topic = job->job.body;
    int64_t now_ms = clock_inner_ms();
    *pass = (struct dead_letter_pass){.lease_until_ms = now_ms,
                                      .until_ms = now_ms + DEAD_LETTER_PASS_MS,
                                      .again_ms = INT64_MAX,
                                      .next_step = steps};
    worker->has_pass = true;
    memcpy(pass->lease, job->lease.at, job->lease.len);
    pass->lease_bytes = job->lease.len;
    if (!job_topic_is_valid(topic)) { /* not pushed by a worker */
        pass_answer(worker, (struct queue_answer){.verb = QUEUE_NACK,
                                                  .final = true,
                                                  .delay_ms = -1,
                                                  .error = slice_of("not the name of a topic")});
        return;
    }
    memcpy(pass->topic, topic.at, topic.len);
    pass->topic_bytes = topic.len;
    pass->figures = dead_letter_topics_find(&worker->topics, topic);
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = dead_letter_pass_topic(pass)};
    queue_topic(worker->options.queue, &get, dead_letter_reply_to(worker, on_topic));
}
