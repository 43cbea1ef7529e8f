/* delivery: a job between its take and the end of its answer: sent, and told the queue what became of
 * it. */
#include "base/clock.h"
#include "deliver/private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- outcomes ---- */

static void answer(struct delivery *delivery, enum queue_verb verb, int64_t delay_ms)
{
    delivery->verb = verb;
    delivery->delay_ms = delay_ms < DISPATCHER_DELAY_MS_MAX ? delay_ms : DISPATCHER_DELAY_MS_MAX;
    answers_add(delivery);
}

/* "At once" would use up all attempts in a moment: then as after any failure, by backoff. */
static int64_t asked_delay_ms(const struct target_report *report)
{
    return report->retry_after_ms > 0 ? report->retry_after_ms : -1;
}

static void refuse(struct delivery *delivery, const char *error)
{
    delivery->final = true;
    snprintf(delivery->error, sizeof(delivery->error), "%s", error);
    answer(delivery, QUEUE_NACK, -1);
}

void delivery_return(struct delivery *delivery, enum dispatcher_return why, int64_t delay_ms)
{
    struct deliver *deliver = delivery->dispatcher->deliver;
    pthread_mutex_lock(&deliver->lock);
    delivery->dispatcher->tally.returned[why]++;
    pthread_mutex_unlock(&deliver->lock);
    answer(delivery, QUEUE_RETURN, delay_ms);
}

/* A message that never left costs no attempt, for a while; then it does, that nothing waits for
 * ever. */
static void end_unsent(struct delivery *delivery, const struct target_report *report)
{
    struct deliver *deliver = delivery->dispatcher->deliver;
    if (delivery->waiting_ms >= DISPATCHER_PATIENCE_MS) {
        answer(delivery, QUEUE_NACK, asked_delay_ms(report));
        return;
    }
    int64_t delay_ms = DISPATCHER_UNSENT_MS / 2 +
                       (int64_t)random_below(&deliver->endpoints.random, DISPATCHER_UNSENT_MS);
    delivery_return(delivery, DISPATCHER_RETURN_UNSENT,
                    report->retry_after_ms > delay_ms ? report->retry_after_ms : delay_ms);
}

static void end_delivery(struct delivery *delivery, const struct target_report *report)
{
    struct deliver *deliver = delivery->dispatcher->deliver;
    snprintf(delivery->error, sizeof(delivery->error), "%s", report->error);
    if (deliver->is_closing &&
        (report->outcome == TARGET_FAILED || report->outcome == TARGET_UNSENT)) {
        delivery_return(delivery, DISPATCHER_RETURN_STOPPING, 0);
        return;
    }
    switch (report->outcome) {
    case TARGET_DONE:
        answer(delivery, QUEUE_ACK, -1);
        return;
    case TARGET_FAILED:
        answer(delivery, QUEUE_NACK, asked_delay_ms(report));
        return;
    case TARGET_REFUSED:
        delivery->final = true;
        answer(delivery, QUEUE_NACK, -1);
        return;
    case TARGET_UNSENT:
        end_unsent(delivery, report);
        return;
    }
    assert(false); /* on_reported has looked */
}

static void on_reported(void *owner, const struct target_report *report, int64_t took_ms)
{
    struct delivery *delivery = owner;
    struct dispatcher *dispatcher = delivery->dispatcher;
    struct deliver *deliver = dispatcher->deliver;
    assert(dispatcher->in_flight > 0 && report->outcome >= TARGET_DONE &&
           report->outcome <= TARGET_UNSENT);
    dispatcher->in_flight--;
    dispatcher->bytes_in_flight -= delivery->body_bytes;
    pthread_mutex_lock(&deliver->lock);
    dispatcher->tally.in_flight = dispatcher->in_flight;
    dispatcher->tally.attempts[report->outcome]++;
    histogram_add(&deliver->took, (uint64_t)took_ms);
    pthread_mutex_unlock(&deliver->lock);
    end_delivery(delivery, report);
    deliver_kick(deliver, dispatcher);
}

/* ---- sending ---- */

static struct slice find_callback(const struct job *job)
{
    struct slice name, value;
    size_t at = 0;
    while (job_meta_next(job->meta, &at, &name, &value))
        if (slice_is(name, DELIVER_CALLBACK_META))
            return value;
    return slice_make(NULL, 0);
}

static void note_sent(struct delivery *delivery, const struct job *job)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    struct deliver *deliver = dispatcher->deliver;
    int64_t late_ms = clock_wall_ms() - job->due_ms;
    dispatcher->in_flight++;
    dispatcher->bytes_in_flight += delivery->body_bytes;
    pthread_mutex_lock(&deliver->lock);
    dispatcher->tally.in_flight = dispatcher->in_flight;
    if (job->attempt == 1)
        histogram_add(&deliver->late, late_ms > 0 ? (uint64_t)late_ms : 0);
    pthread_mutex_unlock(&deliver->lock);
}

static void give(struct delivery *delivery, const struct endpoint_request *request)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    char error[TARGET_ERROR_BYTES];
    int64_t wait_ms;
    switch (endpoints_give(&dispatcher->deliver->endpoints, request, &wait_ms)) {
    case ENDPOINT_SENT:
        note_sent(delivery, request->message.job);
        return;
    case ENDPOINT_RESTS:
        delivery_return(delivery, DISPATCHER_RETURN_RESTS, wait_ms);
        return;
    case ENDPOINT_CROWDED:
        delivery_return(delivery, DISPATCHER_RETURN_CROWDED, wait_ms);
        return;
    case ENDPOINT_LATER:
        delivery_return(delivery, DISPATCHER_RETURN_LATER, wait_ms);
        return;
    case ENDPOINT_UNKNOWN:
        snprintf(error, sizeof(error), "no way to '%.*s' in this build", (int)request->endpoint.len,
                 request->endpoint.at);
        refuse(delivery, error);
        return;
    }
}

static uint32_t callback_window(const struct dispatcher *dispatcher)
{
    uint32_t half = dispatcher->setting.max_in_flight / 2;
    return half < 1 ? 1 : half < ENDPOINT_WINDOW ? half : ENDPOINT_WINDOW;
}

static void send_to_callback(struct delivery *delivery, struct endpoint_request *request)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    char error[TARGET_ERROR_BYTES], error_text[DELIVER_ERROR_BYTES];
    struct buffer endpoint;
    if (!dispatcher->setting.allows_callback) {
        refuse(delivery, "this topic does not allow callbacks of its own");
        return;
    }
    buffer_init(&endpoint, ENDPOINT_BYTES_MAX);
    if (!deliver_callback_is_well(request->message.to, error_text)) {
        snprintf(error, sizeof(error), "%.255s", error_text);
        refuse(delivery, error);
    } else if (!target_endpoint(request->message.to, &endpoint, error)) {
        refuse(delivery, error);
    } else {
        request->endpoint = buffer_slice(&endpoint);
        request->window = callback_window(dispatcher);
        give(delivery, request);
    }
    buffer_fini(&endpoint);
}

void delivery_send(struct delivery *delivery, const struct job *job)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    struct endpoint_request request = {
        .message = {.job = job, .setting = &dispatcher->setting, .to = find_callback(job)},
        .reported = on_reported,
        .owner = delivery};
    if (request.message.to.len > 0) {
        send_to_callback(delivery, &request);
    } else if (!dispatcher->setting.to) {
        refuse(delivery, "no destination, the topic has no 'to' and the job no callback");
    } else {
        request.message.to = slice_of(dispatcher->setting.to);
        request.endpoint = slice_of(dispatcher->endpoint);
        give(delivery, &request);
    }
}

struct delivery *delivery_new(struct dispatcher *dispatcher, const struct queue_job *taken)
{
    const struct job *job = &taken->job;
    struct delivery *delivery = malloc(sizeof(*delivery));
    if (!delivery)
        return NULL;
    assert(taken->lease.len <= sizeof(delivery->lease));
    *delivery = (struct delivery){
        .dispatcher = dispatcher,
        .lease_bytes = (uint16_t)taken->lease.len,
        .body_bytes = (uint32_t)job->body.len,
        .lease_until_ms =
            clock_inner_ms() + dispatcher->setting.timeout_ms + DISPATCHER_LEASE_MARGIN_MS,
        .waiting_ms = job->first_due_ms > 0 ? clock_inner_ms() - job->first_due_ms : 0};
    memcpy(delivery->lease, taken->lease.at, taken->lease.len);
    list_init(&delivery->list);
    dispatcher->unanswered++;
    return delivery;
}
