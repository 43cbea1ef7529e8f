#include "deliver/delivery.h"

#include "base/clock.h"
#include "base/log.h"
#include "deliver/check.h"
#include "trace/tracer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    UNSENT_MS = 1000,                /* delay of a job that could not be sent */
    UNSENT_MS_MAX = 3600 * 1000,     /* waiting time after which an unsent attempt counts */
    DELAY_MS_MAX = 24 * 3600 * 1000, /* limit for Retry-After */
    LOSS_LOG_MS = 60 * 1000,         /* a topic logs lost results at most once in this time */
    RESULTS_BYTES = 1 << 20          /* of one call with answers; one result may exceed it */
};

struct delivery { /* a job from its take to the queue's answer */
    struct endpoint_request request;
    struct list list; /* in dispatchers.answers or dispatchers.again */
    struct dispatcher *dispatcher;
    struct traced *traced; /* NULL if the job is not sampled */
    enum queue_verb verb;
    bool final;
    bool is_again; /* true after the queue could not accept the answer */
    bool may_hold; /* the endpoint stands for the group of the job, or for its topic */
    uint16_t lease_bytes;
    uint32_t body_bytes, result_room; /* counted in bytes_in_flight */
    struct buffer result;             /* the content type, then the result */
    size_t result_type_bytes;
    int64_t delay_ms, hold_ms;
    int64_t lease_until_ms; /* inner clock, approximate */
    int64_t waiting_ms;     /* time from its first due time to its take */
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    char error[JOB_ERROR_BYTES_MAX + 1];
};

struct answer_batch { /* deliveries whose answers were sent to the queue */
    struct dispatchers *dispatchers;
    size_t count;
    struct delivery *deliveries[];
};

/* ---- the span ---- */

/* The span of a delivery whose job's trace is sampled, and the job as it is sent, with that span as
 * the parent in its meta. */
struct traced {
    struct tracer *tracer;
    struct trace_span *span; /* NULL if ended */
    struct job job;
    struct buffer meta;
};

static bool is_http(struct slice endpoint)
{
    return endpoint.len > 4 && strncasecmp(endpoint.at, "http", 4) == 0;
}

static struct traced *traced_make(struct tracer *tracer, struct trace_span *span,
                                  const struct job *job)
{
    struct traced *traced = malloc(sizeof *traced);
    if (!traced) {
        trace_span_free(span);
        return NULL;
    }
    *traced = (struct traced){.tracer = tracer, .span = span, .job = *job};
    buffer_init(&traced->meta, job->meta.len + TRACE_META_BYTES_MAX);
    trace_meta_renew(job->meta, &span->self, &traced->meta);
    if (!traced->meta.failed)
        traced->job.meta = buffer_slice(&traced->meta);
    return traced;
}

/* Returns NULL if there is no tracer or the job is not sampled. The data that the message points to
 * has to stay valid until the job was sent. */
static struct traced *traced_new(struct tracer *tracer, const struct target_message *message,
                                 struct slice endpoint)
{
    if (!tracer || !message->job->meta.len)
        return NULL;
    struct trace_span *span =
        tracer_delivery(tracer, is_http(endpoint) ? TRACE_CALLBACK : TRACE_PUBLISH, message->job);
    if (!span)
        return NULL;
    trace_span_set_place(span, endpoint);
    return traced_make(tracer, span, message->job);
}

/* Accepts NULL; a span that was not ended is discarded. */
static void traced_free(struct traced *traced)
{
    if (!traced)
        return;
    trace_span_free(traced->span);
    buffer_fini(&traced->meta);
    free(traced);
}

/* Records the result; called once. */
static void traced_end(struct traced *traced, const struct target_report *report)
{
    static const char *const outcomes[] = {[TARGET_DONE] = "acked",
                                           [TARGET_FAILED] = "nacked",
                                           [TARGET_REFUSED] = "refused",
                                           [TARGET_UNSENT] = "returned"};
    struct trace_span *span = traced->span;
    span->code = report->code;
    if (report->error[0])
        trace_span_set_error(span, slice_of(report->error));
    tracer_end(traced->tracer, span, outcomes[report->outcome], report->outcome != TARGET_DONE);
    traced->span = NULL;
}

/* ---- answers to the queue ---- */

/* Adds the answer of a delivery to those sent at the end of the loop iteration. */
static void answer_add(struct delivery *delivery)
{
    struct dispatchers *all = delivery->dispatcher->all;
    list_add_last(&all->answers, &delivery->list);
    dispatchers_at_iteration_end(all);
}

static void answer_try_again(struct delivery *delivery)
{
    struct dispatchers *all = delivery->dispatcher->all;
    delivery->is_again = true;
    list_add_last(&all->again, &delivery->list);
    if (all->again_ms == INT64_MAX) {
        all->again_ms = clock_inner_ms() + DISPATCHER_RETRY_MS;
        dispatchers_wake_by(all, all->again_ms);
    }
}

static void delivery_free(struct delivery *delivery)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    assert(dispatcher->unanswered > 0);
    dispatcher->unanswered--;
    dispatcher->all->unanswered--;
    dispatcher->bytes_in_flight -= delivery->result_room;
    buffer_fini(&delivery->result);
    traced_free(delivery->traced);
    free(delivery);
}

static void delivery_end(struct delivery *delivery, bool lease_ended)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    if (lease_ended) {
        pthread_mutex_lock(&dispatcher->all->lock);
        dispatcher->tally->lease_ended++;
        pthread_mutex_unlock(&dispatcher->all->lock);
    }
    delivery_free(delivery);
    dispatcher_kick(dispatcher);
}

/* Handles the status of an answer. If the queue could not accept it (unreachable, out of memory),
 * it is retried while the lease may last. After that, the queue ends the lease itself and the job
 * is delivered again. This is the only way in which delivery itself causes a duplicate, and it is
 * counted. */
static void answer_on_status(struct delivery *delivery, enum queue_status status)
{
    switch (status) {
    case QUEUE_OK:
    case QUEUE_CANCELLED: /* a client had requested to cancel the job */
        delivery_end(delivery, false);
        return;
    case QUEUE_NO_MEMORY:
    case QUEUE_NO_SPACE:
    case QUEUE_DIRECTORY_MOVED:
    case QUEUE_UNAVAILABLE:
        if (clock_inner_ms() < delivery->lease_until_ms)
            answer_try_again(delivery);
        else
            delivery_end(delivery, true);
        return;
    case QUEUE_LEASE_ENDED: /* if it was retried: possibly the first answer had arrived */
        delivery_end(delivery, !delivery->is_again);
        return;
    case QUEUE_STOPPING: /* the lease will end by itself */
        delivery_end(delivery, true);
        return;
    default:
        log_event(LOG_ERROR, "answer refused", LOG_TEXT("topic", delivery->dispatcher->topic),
                  LOG_NUMBER("status", status));
        delivery_end(delivery, true);
    }
}

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct answer_batch *batch = owner;
    struct dispatchers *dispatchers = batch->dispatchers;
    (void)tag;
    for (size_t i = 0; i < batch->count; i++)
        answer_on_status(batch->deliveries[i], reply->status != QUEUE_OK ? reply->status
                                               : i < reply->result_count ? reply->results[i].status
                                                                         : QUEUE_UNAVAILABLE);
    free(batch);
    dispatchers->answering--;
    dispatchers->env.answered(dispatchers->env.owner);
}

static struct queue_answer answer_of(const struct delivery *delivery)
{
    struct slice kept = buffer_slice(&delivery->result);
    size_t type_bytes = delivery->result_type_bytes;
    return (struct queue_answer){.verb = delivery->verb,
                                 .lease = slice_make(delivery->lease, delivery->lease_bytes),
                                 .delay_ms = delivery->delay_ms,
                                 .hold_ms = delivery->hold_ms,
                                 .final = delivery->final,
                                 .error = delivery->verb == QUEUE_NACK ? slice_of(delivery->error)
                                                                       : slice_make(NULL, 0),
                                 .result = slice_make(kept.at + type_bytes, kept.len - type_bytes),
                                 .result_type = slice_make(kept.at, type_bytes)};
}

static struct delivery *first_delivery(const struct list *deliveries)
{
    return list_entry(deliveries->next, struct delivery, list);
}

/* Returns false when out of memory. */
static bool answers_send_batch(struct dispatchers *dispatchers, struct queue_answer *answers)
{
    struct answer_batch *batch =
        malloc(sizeof *batch + QUEUE_BATCH_MAX * sizeof batch->deliveries[0]);
    if (!batch)
        return false;
    batch->dispatchers = dispatchers;
    batch->count = 0;
    size_t bytes = 0;
    while (!list_is_empty(&dispatchers->answers) && batch->count < QUEUE_BATCH_MAX &&
           bytes < RESULTS_BYTES) {
        struct delivery *delivery = first_delivery(&dispatchers->answers);
        list_remove(&delivery->list);
        bytes += delivery->result.len;
        answers[batch->count] = answer_of(delivery);
        batch->deliveries[batch->count++] = delivery;
    }
    dispatchers->answering++;
    queue_answer(dispatchers->env.queue, answers, batch->count,
                 (struct queue_reply_to){.done = on_answered, .owner = batch});
    return true;
}

void deliveries_answer(struct dispatchers *dispatchers)
{
    if (list_is_empty(&dispatchers->answers))
        return;
    struct queue_answer *answers = malloc(QUEUE_BATCH_MAX * sizeof *answers);
    while (answers && !list_is_empty(&dispatchers->answers))
        if (!answers_send_batch(dispatchers, answers))
            break;
    free(answers);
    while (!list_is_empty(&dispatchers->answers)) { /* out of memory */
        struct delivery *delivery = first_delivery(&dispatchers->answers);
        list_remove(&delivery->list);
        answer_try_again(delivery);
    }
}

void deliveries_forget(struct list *deliveries)
{
    while (!list_is_empty(deliveries)) {
        struct delivery *delivery = first_delivery(deliveries);
        list_remove(&delivery->list);
        delivery_free(delivery);
    }
}

/* ---- results of a delivery ---- */

static void delivery_answer(struct delivery *delivery, enum queue_verb verb, int64_t delay_ms)
{
    delivery->verb = verb;
    delivery->delay_ms = delay_ms < DELAY_MS_MAX ? delay_ms : DELAY_MS_MAX;
    answer_add(delivery);
}

/* Returns the requested delay. A delay of 0 would use up all attempts immediately, so the backoff
 * applies instead. */
static int64_t asked_delay_ms(const struct target_report *report)
{
    return report->retry_after_ms > 0 ? report->retry_after_ms : -1;
}

/* Returns how long to hold the group of the job, or its topic if it has no group: as long as the peer asked for, so that other servers wait too. It
 * is bounded as the rest of the endpoint. */
static int64_t asked_hold_ms(const struct delivery *delivery, const struct target_report *report)
{
    struct queue_info info = {0};
    if (report->retry_after_ms <= 0 || !delivery->may_hold)
        return 0;
    queue_info(delivery->dispatcher->all->env.queue, &info);
    if (!info.groups)
        return 0;
    return report->retry_after_ms < ENDPOINT_REST_MS_MAX ? report->retry_after_ms
                                                         : ENDPOINT_REST_MS_MAX;
}

static void delivery_refuse(struct delivery *delivery, const char *error)
{
    delivery->final = true;
    snprintf(delivery->error, sizeof delivery->error, "%s", error);
    delivery_answer(delivery, QUEUE_NACK, -1);
}

static void delivery_return(struct delivery *delivery, enum dispatcher_return why, int64_t delay_ms)
{
    struct dispatchers *all = delivery->dispatcher->all;
    pthread_mutex_lock(&all->lock);
    delivery->dispatcher->tally->returned[why]++;
    pthread_mutex_unlock(&all->lock);
    delivery_answer(delivery, QUEUE_RETURN, delay_ms);
}

/* Ends an attempt in which nothing was sent. It is not counted as an attempt at first. After a
 * while it counts, so that no job waits forever. */
static void delivery_end_unsent(struct delivery *delivery, const struct target_report *report)
{
    if (delivery->waiting_ms >= UNSENT_MS_MAX) {
        delivery_answer(delivery, QUEUE_NACK, asked_delay_ms(report));
        return;
    }
    int64_t delay_ms =
        UNSENT_MS / 2 +
        (int64_t)random_below(&delivery->dispatcher->all->env.endpoints->random, UNSENT_MS);
    delivery_return(delivery, DISPATCHER_RETURN_UNSENT,
                    report->retry_after_ms > delay_ms ? report->retry_after_ms : delay_ms);
}

/* Counts a result that is not stored, and logs it from time to time. The job itself is done. */
static void delivery_lose_result(struct delivery *delivery, enum target_loss loss)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    int64_t now_ms = clock_inner_ms();
    pthread_mutex_lock(&dispatcher->all->lock);
    dispatcher->tally->results_lost[loss]++;
    pthread_mutex_unlock(&dispatcher->all->lock);
    if (dispatcher->loss_logged_ms && now_ms - dispatcher->loss_logged_ms < LOSS_LOG_MS)
        return;
    dispatcher->loss_logged_ms = now_ms;
    log_event(LOG_WARN, "result dropped", LOG_TEXT("topic", dispatcher->topic),
              LOG_TEXT("reason", target_loss_name(loss)),
              LOG_NUMBER("limit_bytes", dispatcher->all->env.endpoints->env.result_bytes_max));
}

/* Keeps the answer of the peer as the result of the job. */
static void delivery_keep_result(struct delivery *delivery, const struct target_report *report)
{
    if (report->loss) {
        delivery_lose_result(delivery, report->loss);
        return;
    }
    if (report->result.len == 0)
        return;
    buffer_init(&delivery->result, report->result_type.len + report->result.len);
    buffer_append(&delivery->result, report->result_type.at, report->result_type.len);
    buffer_append(&delivery->result, report->result.at, report->result.len);
    delivery->result_type_bytes = report->result_type.len;
    if (!delivery->result.failed)
        return;
    buffer_fini(&delivery->result);
    delivery->result_type_bytes = 0;
    delivery_lose_result(delivery, TARGET_LOSS_NO_MEMORY);
}

static void delivery_end_reported(struct delivery *delivery, const struct target_report *report)
{
    snprintf(delivery->error, sizeof delivery->error, "%s", report->error);
    if (delivery->dispatcher->all->env.endpoints->is_closing &&
        (report->outcome == TARGET_FAILED || report->outcome == TARGET_UNSENT)) {
        delivery_return(delivery, DISPATCHER_RETURN_STOPPING, 0);
        return;
    }
    switch (report->outcome) {
    case TARGET_DONE:
        delivery_keep_result(delivery, report);
        delivery_answer(delivery, QUEUE_ACK, -1);
        return;
    case TARGET_FAILED:
        delivery->hold_ms = asked_hold_ms(delivery, report);
        delivery_answer(delivery, QUEUE_NACK, asked_delay_ms(report));
        return;
    case TARGET_REFUSED:
        delivery->final = true;
        delivery_answer(delivery, QUEUE_NACK, -1);
        return;
    case TARGET_UNSENT:
        delivery_end_unsent(delivery, report);
        return;
    }
    assert(false); /* handled by on_reported */
}

static void on_reported(struct endpoint_request *request, const struct target_report *report,
                        int64_t took_ms)
{
    struct delivery *delivery = list_entry(request, struct delivery, request);
    struct dispatcher *dispatcher = delivery->dispatcher;
    struct dispatchers *all = dispatcher->all;
    (void)took_ms;
    assert(dispatcher->in_flight > 0 && report->outcome >= TARGET_DONE &&
           report->outcome <= TARGET_UNSENT);
    dispatcher->in_flight--;
    dispatcher->bytes_in_flight -= delivery->body_bytes;
    pthread_mutex_lock(&all->lock);
    dispatcher->tally->in_flight--;
    dispatcher->tally->attempts[report->outcome]++;
    pthread_mutex_unlock(&all->lock);
    if (delivery->traced)
        traced_end(delivery->traced, report);
    delivery_end_reported(delivery, report);
    dispatcher_kick(dispatcher);
}

/* ---- sending a delivery ---- */

static enum job_way way_of(struct slice endpoint)
{
    return target_find(endpoint) == &target_http ? JOB_WAY_CALLBACK : JOB_WAY_BROKER;
}

static void delivery_note_sent(struct delivery *delivery, struct slice endpoint,
                               const struct job *job)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    struct dispatchers *all = dispatcher->all;
    dispatcher->in_flight++;
    if (dispatcher->setting.takes_result)
        delivery->result_room = (uint32_t)all->env.endpoints->env.result_bytes_max;
    dispatcher->bytes_in_flight += delivery->body_bytes + delivery->result_room;
    pthread_mutex_lock(&all->lock);
    dispatcher->tally->in_flight++;
    pthread_mutex_unlock(&all->lock);
    lateness_add_job(all->env.lateness, way_of(endpoint), job, queue_wall_ms(all->env.queue));
}

static void delivery_give(struct delivery *delivery, struct slice endpoint,
                          const struct target_message *given)
{
    const struct dispatchers_env *env = &delivery->dispatcher->all->env;
    struct target_message message = *given;
    char error[TARGET_ERROR_BYTES];
    int64_t wait_ms;
    delivery->traced = traced_new(env->tracer, given, endpoint);
    if (delivery->traced)
        message.job = &delivery->traced->job;
    switch (endpoints_give(env->endpoints, &delivery->request, endpoint, &message, &wait_ms)) {
    case ENDPOINT_SENT:
        if (delivery->traced)
            tracer_sent(env->tracer, delivery->traced->span, message.job);
        delivery_note_sent(delivery, endpoint, message.job);
        return;
    case ENDPOINT_RESTS:
        delivery_return(delivery, DISPATCHER_RETURN_RESTS, wait_ms);
        return;
    case ENDPOINT_CONGESTED:
        delivery_return(delivery, DISPATCHER_RETURN_CONGESTED, wait_ms);
        return;
    case ENDPOINT_LATER:
        delivery_return(delivery, DISPATCHER_RETURN_LATER, wait_ms);
        return;
    case ENDPOINT_UNKNOWN:
        snprintf(error, sizeof error, "this build cannot deliver to '%.*s'", (int)endpoint.len,
                 endpoint.at);
        delivery_refuse(delivery, error);
        return;
    case ENDPOINT_INVALID:
        delivery_refuse(delivery, env->endpoints->invalid);
        return;
    }
}

/* Returns the window for jobs with their own callbacks: half of the topic's window per endpoint, so
 * that one slow peer does not block all others. */
static uint32_t callback_window(const struct dispatcher *dispatcher)
{
    uint32_t half = dispatcher->setting.max_in_flight / 2;
    return half < 1 ? 1 : half < ENDPOINT_WINDOW ? half : ENDPOINT_WINDOW;
}

static void delivery_send_to_callback(struct delivery *delivery,
                                      const struct target_message *message)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    char error[TARGET_ERROR_BYTES], error_text[DELIVER_ERROR_BYTES];
    struct buffer endpoint;
    if (!dispatcher->setting.allows_callback) {
        delivery_refuse(delivery, "this topic does not allow callbacks of its jobs");
        return;
    }
    buffer_init(&endpoint, ENDPOINT_BYTES_MAX);
    if (!check_callback_form(message->to, error_text)) {
        snprintf(error, sizeof error, "%.255s", error_text);
        delivery_refuse(delivery, error);
    } else if (!target_endpoint(message->to, &endpoint, error)) {
        delivery_refuse(delivery, error);
    } else {
        delivery->request.window = callback_window(dispatcher);
        delivery_give(delivery, buffer_slice(&endpoint), message);
    }
    buffer_fini(&endpoint);
}

/* Sends the job, or answers it if that is not possible. The job has to stay valid until
 * endpoints_flush. */
static void delivery_send(struct delivery *delivery, const struct job *job)
{
    const struct dispatcher *dispatcher = delivery->dispatcher;
    struct target_message message = {.job = job,
                                     .setting = &dispatcher->setting,
                                     .to =
                                         job_meta_find(job->meta, slice_of(DELIVER_CALLBACK_META))};
    if (message.to.len > 0) {
        delivery_send_to_callback(delivery, &message);
    } else if (!dispatcher->setting.to) {
        delivery_refuse(delivery, "no destination, the topic has no 'to' and the job no callback");
    } else {
        message.to = slice_of(dispatcher->setting.to);
        delivery->may_hold = true;
        delivery_give(delivery, slice_of(dispatcher->endpoint), &message);
    }
}

/* Returns NULL when out of memory. */
static struct delivery *delivery_new(struct dispatcher *dispatcher, const struct queue_job *taken)
{
    const struct job *job = &taken->job;
    struct delivery *delivery = malloc(sizeof *delivery);
    if (!delivery)
        return NULL;
    assert(taken->lease.len <= sizeof delivery->lease);
    *delivery = (struct delivery){
        .request.reported = on_reported,
        .dispatcher = dispatcher,
        .lease_bytes = (uint16_t)taken->lease.len,
        .body_bytes = (uint32_t)job->body.len,
        .lease_until_ms =
            clock_inner_ms() + dispatcher->setting.timeout_ms + DISPATCHER_LEASE_MARGIN_MS,
        .waiting_ms =
            job->first_due_ms > 0
                ? clock_inner_ms_of(dispatcher->all->env.endpoints->clock) - job->first_due_ms
                : 0};
    delivery->may_hold = job->group.len > 0;
    memcpy(delivery->lease, taken->lease.at, taken->lease.len);
    list_init(&delivery->list);
    dispatcher->unanswered++;
    dispatcher->all->unanswered++;
    return delivery;
}

void delivery_begin(struct dispatcher *dispatcher, const struct queue_job *taken, bool is_late)
{
    struct delivery *delivery = delivery_new(dispatcher, taken);
    if (!delivery)
        return; /* the lease will end; nothing can be done without memory */
    if (!dispatcher->is_on)
        delivery_return(delivery, DISPATCHER_RETURN_STOPPING, 0);
    else if (is_late)
        delivery_return(delivery, DISPATCHER_RETURN_SHORT_LEASE, 0);
    else
        delivery_send(delivery, &taken->job);
}
