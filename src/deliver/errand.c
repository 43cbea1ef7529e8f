/* errand: a job between its take and the end of its answer: sent, and told the queue what became of
 * it. */
#include "base/clock.h"
#include "deliver/private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- outcomes ---- */

static void answer(struct errand *errand, enum queue_verb verb, int64_t delay_ms)
{
    errand->verb = verb;
    errand->delay_ms = delay_ms < LANE_DELAY_MS_MAX ? delay_ms : LANE_DELAY_MS_MAX;
    answers_add(errand);
}

/* "At once" would use up all attempts in a moment: then as after any failure, by backoff. */
static int64_t asked_delay_ms(const struct target_report *report)
{
    return report->retry_after_ms > 0 ? report->retry_after_ms : -1;
}

static void refuse(struct errand *errand, const char *error)
{
    errand->final = true;
    snprintf(errand->error, sizeof(errand->error), "%s", error);
    answer(errand, QUEUE_NACK, -1);
}

void errand_give_back(struct errand *errand, enum lane_return why, int64_t delay_ms)
{
    struct deliver *deliver = errand->lane->deliver;
    pthread_mutex_lock(&deliver->lock);
    errand->lane->tally.returned[why]++;
    pthread_mutex_unlock(&deliver->lock);
    answer(errand, QUEUE_RETURN, delay_ms);
}

/* A message that never left costs no attempt, for a while; then it does, that nothing waits for
 * ever. */
static void end_unsent(struct errand *errand, const struct target_report *report)
{
    struct deliver *deliver = errand->lane->deliver;
    if (errand->waiting_ms >= LANE_PATIENCE_MS) {
        answer(errand, QUEUE_NACK, asked_delay_ms(report));
        return;
    }
    int64_t delay_ms =
        LANE_UNSENT_MS / 2 + (int64_t)random_below(&deliver->endpoints.random, LANE_UNSENT_MS);
    errand_give_back(errand, LANE_RETURN_UNSENT,
                     report->retry_after_ms > delay_ms ? report->retry_after_ms : delay_ms);
}

static void end_errand(struct errand *errand, const struct target_report *report)
{
    struct deliver *deliver = errand->lane->deliver;
    snprintf(errand->error, sizeof(errand->error), "%s", report->error);
    if (deliver->is_closing &&
        (report->outcome == TARGET_FAILED || report->outcome == TARGET_UNSENT)) {
        errand_give_back(errand, LANE_RETURN_STOPPING, 0);
        return;
    }
    switch (report->outcome) {
    case TARGET_DONE:
        answer(errand, QUEUE_ACK, -1);
        return;
    case TARGET_FAILED:
        answer(errand, QUEUE_NACK, asked_delay_ms(report));
        return;
    case TARGET_REFUSED:
        errand->final = true;
        answer(errand, QUEUE_NACK, -1);
        return;
    case TARGET_UNSENT:
        end_unsent(errand, report);
        return;
    }
    assert(false); /* on_reported has looked */
}

static void on_reported(void *owner, const struct target_report *report, int64_t took_ms)
{
    struct errand *errand = owner;
    struct lane *lane = errand->lane;
    struct deliver *deliver = lane->deliver;
    assert(lane->in_flight > 0 && report->outcome >= TARGET_DONE &&
           report->outcome <= TARGET_UNSENT);
    lane->in_flight--;
    lane->bytes_in_flight -= errand->body_bytes;
    pthread_mutex_lock(&deliver->lock);
    lane->tally.in_flight = lane->in_flight;
    lane->tally.attempts[report->outcome]++;
    histogram_add(&deliver->took, (uint64_t)took_ms);
    pthread_mutex_unlock(&deliver->lock);
    end_errand(errand, report);
    deliver_kick(deliver, lane);
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

static void note_sent(struct errand *errand, const struct job *job)
{
    struct lane *lane = errand->lane;
    struct deliver *deliver = lane->deliver;
    int64_t late_ms = clock_wall_ms() - job->due_ms;
    lane->in_flight++;
    lane->bytes_in_flight += errand->body_bytes;
    pthread_mutex_lock(&deliver->lock);
    lane->tally.in_flight = lane->in_flight;
    if (job->attempt == 1)
        histogram_add(&deliver->late, late_ms > 0 ? (uint64_t)late_ms : 0);
    pthread_mutex_unlock(&deliver->lock);
}

static void give(struct errand *errand, const struct parcel *parcel)
{
    struct lane *lane = errand->lane;
    char error[TARGET_ERROR_BYTES];
    int64_t wait_ms;
    switch (endpoints_give(&lane->deliver->endpoints, parcel, &wait_ms)) {
    case ENDPOINT_SENT:
        note_sent(errand, parcel->message.job);
        return;
    case ENDPOINT_RESTS:
        errand_give_back(errand, LANE_RETURN_RESTS, wait_ms);
        return;
    case ENDPOINT_CROWDED:
        errand_give_back(errand, LANE_RETURN_CROWDED, wait_ms);
        return;
    case ENDPOINT_LATER:
        errand_give_back(errand, LANE_RETURN_LATER, wait_ms);
        return;
    case ENDPOINT_UNKNOWN:
        snprintf(error, sizeof(error), "no way to '%.*s' in this build", (int)parcel->endpoint.len,
                 parcel->endpoint.at);
        refuse(errand, error);
        return;
    }
}

static uint32_t callback_window(const struct lane *lane)
{
    uint32_t half = lane->setting.max_in_flight / 2;
    return half < 1 ? 1 : half < ENDPOINT_WINDOW ? half : ENDPOINT_WINDOW;
}

static void send_to_callback(struct errand *errand, struct parcel *parcel)
{
    struct lane *lane = errand->lane;
    char error[TARGET_ERROR_BYTES], error_text[DELIVER_ERROR_BYTES];
    struct buffer endpoint;
    if (!lane->setting.allows_callback) {
        refuse(errand, "this topic does not allow callbacks of its own");
        return;
    }
    buffer_init(&endpoint, ENDPOINT_BYTES_MAX);
    if (!deliver_callback_is_well(parcel->message.to, error_text)) {
        snprintf(error, sizeof(error), "%.255s", error_text);
        refuse(errand, error);
    } else if (!target_endpoint(parcel->message.to, &endpoint, error)) {
        refuse(errand, error);
    } else {
        parcel->endpoint = buffer_slice(&endpoint);
        parcel->window = callback_window(lane);
        give(errand, parcel);
    }
    buffer_fini(&endpoint);
}

void errand_send(struct errand *errand, const struct job *job)
{
    struct lane *lane = errand->lane;
    struct parcel parcel = {
        .message = {.job = job, .setting = &lane->setting, .to = find_callback(job)},
        .reported = on_reported,
        .owner = errand};
    if (parcel.message.to.len > 0) {
        send_to_callback(errand, &parcel);
    } else if (!lane->setting.to) {
        refuse(errand, "no destination, the topic has no 'to' and the job no callback");
    } else {
        parcel.message.to = slice_of(lane->setting.to);
        parcel.endpoint = slice_of(lane->endpoint);
        give(errand, &parcel);
    }
}

struct errand *errand_new(struct lane *lane, const struct queue_job *taken)
{
    const struct job *job = &taken->job;
    struct errand *errand = malloc(sizeof(*errand));
    if (!errand)
        return NULL;
    assert(taken->lease.len <= sizeof(errand->lease));
    *errand = (struct errand){
        .lane = lane,
        .lease_bytes = (uint16_t)taken->lease.len,
        .body_bytes = (uint32_t)job->body.len,
        .lease_until_ms = clock_inner_ms() + lane->setting.timeout_ms + LANE_LEASE_MARGIN_MS,
        .waiting_ms = job->first_due_ms > 0 ? clock_inner_ms() - job->first_due_ms : 0};
    memcpy(errand->lease, taken->lease.at, taken->lease.len);
    list_init(&errand->list);
    lane->unanswered++;
    return errand;
}
