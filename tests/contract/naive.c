/* The naive queue: what changes jobs. Every call asks the model and answers at the next pump. */
#include "naive.h"

#include "base/clock.h"
#include "queue/door.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void answer_later(struct naive *naive, struct queue_reply_to to,
                         const struct queue_reply *reply)
{
    bool spoil = ++naive->calls % 50 == 0;
    int times = spoil && naive->fault == FAULT_TWICE ? 2 : 1;

    if (spoil && naive->fault == FAULT_INSIDE) {
        to.done(to.owner, to.tag, reply);
        return;
    }
    while (times-- > 0) {
        struct pending *pending = calloc(1, sizeof *pending);

        assert(pending);
        pending->to = to;
        outcome_copy(&pending->outcome, reply);
        *naive->last = pending;
        naive->last = &pending->next;
    }
}

/* Pins the latest of each span that the promise allows. */
void naive_pin_all(struct naive *naive)
{
    for (size_t i = 0; i < naive->model.topic_count; i++) {
        struct model_topic *topic = &naive->model.topics[i];

        topic->paused_until.least_ms = topic->paused_until.most_ms;
        if (naive->fault == FAULT_PAUSE_FOR_EVER)
            topic->paused_until = (struct span){0};
    }
    for (size_t i = 0; i < naive->model.job_count; i++) {
        struct model_job *job = &naive->model.jobs[i];

        model_pin_due(job, job->due.most_ms);
        if (job->next)
            model_pin_due(job->next, job->next->due.most_ms);
        if (naive->fault == FAULT_NEXT_LOST && job->next) {
            free(job->next->bytes);
            free(job->next);
            job->next = NULL;
        }
        job->lease_until.least_ms = job->lease_until.most_ms;
        if (naive->fault == FAULT_NO_TTL)
            job->first_due.most_ms = job->first_due.least_ms = INT64_MAX / 2;
    }
}

void naive_report_watchers(struct naive *naive)
{
    for (size_t i = 0; i < naive->watched_count; i++)
        if (naive->watched[i].count &&
            model_first_ready_of_topic(&naive->model, slice_of(naive->watched[i].name)))
            naive->watched[i].report = true;
}

/* Carries out due events before anything else. */
struct naive *naive_begin(struct queue *queue)
{
    struct naive *naive = naive_of(queue);

    model_advance(&naive->model, clock_inner_ms() + (naive->fault == FAULT_EARLY));
    naive->model.now_ms = clock_inner_ms();
    naive_pin_all(naive);
    return naive;
}

void naive_end(struct naive *naive, struct queue_reply_to to, const struct queue_reply *reply)
{
    naive_pin_all(naive);
    naive_report_watchers(naive);
    answer_later(naive, to, reply);
}

static struct queue_result result_of(const struct model_result *from)
{
    return (struct queue_result){.status = from->status,
                                 .state = from->state,
                                 .due_ms = from->has_due ? from->due.most_ms : 0,
                                 .lease_until_ms =
                                     from->has_lease_until ? from->lease_until.most_ms : 0,
                                 .cancel_requested = from->cancel_requested};
}
/* ---- push, answer, change ---- */

static const char *bad_option_of(const struct queue_push *push)
{
    const char *detail = "at";

    queue_check_push(push, SIZE_MAX, &detail);
    return detail;
}

void naive_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    struct queue_result *results = calloc(count + 1, sizeof *results);
    char(*made)[ULID_BYTES] = calloc(count + 1, ULID_BYTES);

    for (size_t i = 0; i < count; i++) {
        struct queue_push push = pushes[i];
        struct model_job *old = model_find(&naive->model, push.topic, push.id);
        uint32_t attempt = old ? old->attempt : 0;
        struct model_result out;

        if (naive->fault == FAULT_ONCE_IGNORED)
            push.once.len = 0;
        if (push.id.len == 0) {
            ulid_write(&naive->ulid, clock_wall_ms(), made[i]);
            push.id = slice_make(made[i], ULID_BYTES);
        }
        model_push(&naive->model, &push, false, &out);
        naive_pin_all(naive);
        if (naive->fault == FAULT_ATTEMPTS_KEPT && out.status == QUEUE_REPLACED)
            model_find(&naive->model, push.topic, push.id)->attempt = attempt;
        if (naive->fault == FAULT_BODY_CHANGED && out.status == QUEUE_CREATED && push.body.len > 9)
            model_find(&naive->model, push.topic, push.id)->bytes[push.content_type.len] ^= 1;
        results[i] = result_of(&out);
        results[i].topic = push.topic;
        results[i].id = push.id;
        if (out.status == QUEUE_BAD_OPTION)
            results[i].detail = bad_option_of(&push);
    }
    naive_end(naive, to, &(struct queue_reply){.results = results, .result_count = count});
    free(results);
    free(made);
}

static bool is_spoilt(struct naive *naive, struct queue_answer *answer, struct queue_again *room)
{
    if (answer->verb == QUEUE_AGAIN && naive->fault == FAULT_AGAIN_KEEPS_BODY) {
        *room = *answer->again;
        room->has_body = false;
        answer->again = room;
    }
    answer->final &= naive->fault != FAULT_NOT_FINAL;
    answer->has_priority &= naive->fault != FAULT_NACK_PRIORITY_LOST;
    for (size_t i = 0; i < naive->model.job_count && naive->fault == FAULT_REQUEST_FORGOTTEN; i++)
        naive->model.jobs[i].cancel_requested = false;
    if (answer->verb == QUEUE_RETURN && naive->fault == FAULT_RETURN_AT_ONCE)
        answer->delay_ms = 0;
    if (answer->verb == QUEUE_NACK && naive->fault == FAULT_NO_ERROR)
        answer->error = slice_of("");
    if (answer->verb == QUEUE_NACK && naive->fault == FAULT_DELAY_LOST && answer->delay_ms > 0)
        answer->delay_ms = 0;
    return answer->verb == QUEUE_ACK && naive->fault == FAULT_ACK_DROPPED && ++naive->acks % 3 == 0;
}

void naive_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                  struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    struct queue_result *results = calloc(count + 1, sizeof *results);
    struct model_result *outs = calloc(count + 1, sizeof *outs);

    for (size_t i = 0; i < count; i++) {
        struct queue_answer answer = answers[i];
        struct queue_again room;

        if (is_spoilt(naive, &answer, &room))
            answer = (struct queue_answer){.verb = QUEUE_EXTEND, .lease = answer.lease};
        model_answer(&naive->model, &answer, &outs[i]);
        naive_pin_all(naive);
        if (naive->fault == FAULT_TOTAL_TWICE && answer.verb == QUEUE_ACK && !outs[i].status)
            naive->model.topics[0].totals.acked++;
        if (naive->fault == FAULT_ANY_LEASE && outs[i].status == QUEUE_LEASE_ENDED)
            outs[i].status = QUEUE_OK;
        results[i] = result_of(&outs[i]);
        results[i].id = slice_of(outs[i].id);
        if (outs[i].status == QUEUE_BAD_OPTION)
            results[i].detail = "option";
    }
    naive_end(naive, to, &(struct queue_reply){.results = results, .result_count = count});
    free(results);
    free(outs);
}

void naive_change(struct queue *queue, const struct queue_change *changes, size_t count,
                  struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    struct queue_result *results = calloc(count + 1, sizeof *results);

    for (size_t i = 0; i < count; i++) {
        struct model_result out;

        model_change(&naive->model, &changes[i], &out);
        naive_pin_all(naive);
        results[i] = result_of(&out);
        results[i].topic = changes[i].topic;
        results[i].id = changes[i].id;
        if (out.status == QUEUE_BAD_OPTION)
            results[i].detail = "option";
    }
    naive_end(naive, to, &(struct queue_reply){.results = results, .result_count = count});
    free(results);
}

/* ---- take ---- */

static struct slice show_history(const struct naive *naive, const struct model_job *job,
                                 struct outcome *texts)
{
    char added[JOB_HISTORY_BYTES_MAX], *history = outcome_bytes(texts, sizeof added);
    size_t bytes = 0;

    for (size_t i = naive->fault == FAULT_HISTORY_SHORT; i < job->history_count; i++) {
        const struct model_attempt *from = &job->history[i];
        struct job_attempt attempt = {.attempt = from->attempt,
                                      .started_ms = from->started_ms,
                                      .duration_ms = from->duration.most_ms,
                                      .outcome = from->outcome,
                                      .error = slice_make(from->error, from->error_bytes)};

        bytes = job_history_add(slice_make(history, bytes), &attempt, added);
        memcpy(history, added, bytes);
    }
    return slice_make(history, bytes);
}

struct queue_job naive_show(const struct naive *naive, const struct model_job *job, bool with_body,
                            struct outcome *texts)
{
    struct queue_job shown = {.job = {.topic = slice_of(job->topic),
                                      .id = slice_of(job->id),
                                      .content_type = job->content_type,
                                      .meta = job->meta,
                                      .error = slice_make(job->error, job->error_bytes),
                                      .history = show_history(naive, job, texts),
                                      .state = job->state,
                                      .priority = job->priority,
                                      .attempt = job->attempt,
                                      .due_ms = job->due.most_ms,
                                      .first_due_ms = job->first_due.most_ms,
                                      .sequence = job->sequence,
                                      .delivery = job->delivery,
                                      .next_due_ms = job->next ? job->next->due.most_ms : 0,
                                      .policy = job->policy}};

    if (job->state == JOB_LEASED) {
        shown.job.lease_until_ms = job->lease_until.most_ms;
        shown.job.consumer = slice_of(job->consumer);
        shown.job.cancel_requested = job->cancel_requested;
    }
    if (with_body)
        shown.job.body = job->body;
    return shown;
}

static struct model_job *next_ready(struct naive *naive, struct slice topic)
{
    struct model_topic *settings = model_find_topic(&naive->model, topic);
    struct model_job *next;
    bool paused = settings && settings->paused;

    if (naive->fault == FAULT_PAUSE_IGNORED && settings)
        settings->paused = false;
    next = model_first_ready_of_topic(&naive->model, topic);
    if (settings)
        settings->paused = paused;
    if (!next || naive->fault != FAULT_NO_PRIORITY)
        return next;
    for (size_t i = 0; i < naive->model.job_count; i++) {
        struct model_job *job = &naive->model.jobs[i];

        if (slice_is(topic, job->topic) && job->state == JOB_READY &&
            model_listed_before(job, next))
            next = job;
    }
    return next;
}

/* Returns the next job of a take: the best of all by priority; else the next of this topic. */
static struct model_job *next_taken(struct naive *naive, const struct queue_take *take,
                                    size_t topic)
{
    if (take->by_priority && naive->fault != FAULT_NAMED_ORDER)
        return model_first_ready_of_topics(&naive->model, take->topics, take->topic_count);
    return next_ready(naive, take->topics[topic]);
}

static void hand_out(struct naive *naive, struct model_job *job, const struct queue_take *take,
                     struct outcome *texts, struct queue_job *jobs, size_t *count)
{
    model_lease(&naive->model, job, take->lease_ms,
                naive->fault == FAULT_CONSUMER_LOST ? (struct slice){0} : take->consumer);
    job->lease_until.least_ms = job->lease_until.most_ms;
    job->attempt += naive->fault == FAULT_ATTEMPT_TWICE;
    job->delivery = naive->fault == FAULT_DELIVERY_SAME ? 7 : ++naive->deliveries;
    snprintf(job->lease, sizeof job->lease, "L%" PRIu64, ++naive->calls);
    jobs[*count] = naive_show(naive, job, true, texts);
    jobs[(*count)++].lease = slice_of(job->lease);
}

void naive_take(struct queue *queue, const struct queue_take *take, struct queue_reply_to to)
{
    struct naive *naive = naive_begin(queue);
    const char *detail;
    struct queue_reply reply = {.status = queue_check_take(take, &detail)};
    struct queue_job *jobs = calloc(QUEUE_TAKE_MAX, sizeof *jobs);
    struct outcome texts = {0};

    if (take->id.len && !reply.status) {
        struct model_job *job = model_find(&naive->model, take->topics[0], take->id);
        struct span due = job ? job->due : (struct span){0};

        reply.status = model_pick(&naive->model, take->topics[0], take->id, &job);
        if (naive->fault == FAULT_PICK_NOT_DUE && !reply.status)
            job->due = due;
        if (!reply.status)
            hand_out(naive, job, take, &texts, jobs, &reply.job_count);
    }
    for (size_t i = 0; i < take->topic_count && !reply.status && !take->id.len; i++) {
        struct model_job *job;

        while (reply.job_count < take->max && (job = next_taken(naive, take, i)))
            hand_out(naive, job, take, &texts, jobs, &reply.job_count);
    }
    reply.jobs = jobs;
    naive_end(naive, to, &reply);
    outcome_free(&texts);
    free(jobs);
}
