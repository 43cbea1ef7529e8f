#include "amqp/consumer_private.h"
#include "base/clock.h"
#include "base/log.h"
#include "queue/status.h"

#include <stdio.h>
#include <stdlib.h>

enum { AGAIN_MS = 1000, LINES_A_SECOND = 10, MARKS_MASK = AMQP_IN_WINDOW - 1 };

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

void amqp_in_batch_free(struct amqp_in_batch *batch)
{
    for (size_t i = 0; batch && i < batch->count; i++)
        free(batch->jobs[i]);
    free(batch);
}

/* ---- what can never be taken ---- */

/* A flood of bad messages is not to be a flood of lines: what is left out is counted. */
static void log_rejected(struct amqp_in_consumer *consumer, enum amqp_in_refusal refusal,
                         const char *why)
{
    int64_t second = now_ms() / 1000;
    if (second != consumer->second) {
        consumer->second = second;
        consumer->lines = 0;
    }
    if (++consumer->lines > LINES_A_SECOND) {
        consumer->unsaid++;
        return;
    }
    log_event(LOG_WARN, "amqp-in message rejected", LOG_TEXT("queue", consumer->source->queue),
              LOG_TEXT("reason", amqp_in_refusal_name(refusal)), LOG_TEXT("error", why),
              LOG_NUMBER("not_logged", consumer->unsaid));
    consumer->unsaid = 0;
}

static bool reject(struct amqp_in_consumer *consumer, uint64_t tag, enum amqp_in_refusal refusal,
                   const char *why, char *error)
{
    atomic_fetch_add(&consumer->counts.rejected[refusal], 1);
    log_rejected(consumer, refusal, why);
    consumer->marks[tag & MARKS_MASK] = AMQP_IN_REJECTED;
    int status = amqp_basic_reject(consumer->link.state, AMQP_IN_CHANNEL, tag, 0);
    if (status != AMQP_STATUS_OK)
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

/* ---- out ---- */

void amqp_in_flush(struct amqp_in_consumer *consumer)
{
    struct amqp_in_batch *batch = consumer->open;
    if (!batch)
        return;
    consumer->open = NULL;
    consumer->batches_out++;
    consumer->told.batch(consumer->ctx, batch);
}

/* False: out of memory. */
static bool add_job(struct amqp_in_consumer *consumer, struct amqp_in_job *job)
{
    if (!consumer->open && !(consumer->open = calloc(1, sizeof(*consumer->open))))
        return false;
    consumer->open->generation = consumer->generation;
    consumer->open->jobs[consumer->open->count++] = job;
    if (consumer->open->count == AMQP_IN_BATCH)
        amqp_in_flush(consumer);
    return true;
}

bool amqp_in_take_message(struct amqp_in_consumer *consumer, const amqp_envelope_t *envelope,
                          char *error)
{
    struct amqp_in_job *job = NULL;
    char why[AMQP_IN_ERROR_BYTES];
    uint64_t tag = envelope->delivery_tag;
    if (tag != consumer->next || tag - consumer->first >= AMQP_IN_WINDOW) {
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, a delivery tag out of order");
        return false;
    }
    atomic_fetch_add(&consumer->counts.received, 1);
    consumer->next++;
    consumer->marks[tag & MARKS_MASK] = AMQP_IN_WAITS;
    enum amqp_in_refusal refusal = amqp_in_job_make(consumer->source, envelope, &job, why);
    if (refusal == AMQP_IN_TAKEN && add_job(consumer, job))
        return true;
    free(job);
    if (refusal != AMQP_IN_TAKEN && refusal != AMQP_IN_NO_MEMORY)
        return reject(consumer, tag, refusal, why, error);
    /* The broker delivers it again once the connection is gone. */
    snprintf(error, TARGET_ERROR_BYTES, "connection given up, out of memory");
    return false;
}

/* ---- back ---- */

static bool is_for_later(enum queue_status status)
{
    return status == QUEUE_NO_SPACE || status == QUEUE_NO_MEMORY || status == QUEUE_STOPPING ||
           status == QUEUE_UNAVAILABLE || status == QUEUE_DIRECTORY_MOVED ||
           status == QUEUE_TOO_MANY_TOPICS;
}

/* The log hears of a change, not of each message. */
static void set_refused(struct amqp_in_consumer *consumer, bool is_refused, const char *why)
{
    if (atomic_exchange(&consumer->counts.is_refused, is_refused) == is_refused)
        return;
    if (is_refused)
        log_event(LOG_WARN, "amqp-in pauses", LOG_TEXT("queue", consumer->source->queue),
                  LOG_TEXT("error", why));
    else
        log_event(LOG_INFO, "amqp-in goes on", LOG_TEXT("queue", consumer->source->queue));
}

static bool settle_job(struct amqp_in_consumer *consumer, struct amqp_in_job *job, char *error)
{
    uint64_t tag = job->delivery_tag;
    enum queue_status status = job->status;
    if (status == QUEUE_EXISTED && !job->may_be_there) {
        /* It comes the first time: a publisher has sent the same twice, and means it. */
        job->id.len = 0;
        list_add_last(&consumer->again, &job->list);
        return true;
    }
    if (is_for_later(status)) {
        job->may_be_there = true;
        set_refused(consumer, true, queue_status_sentence(status));
        atomic_fetch_add(&consumer->counts.again, 1);
        list_add_last(&consumer->again, &job->list);
        consumer->again_at_ms = now_ms() + AGAIN_MS;
        return true;
    }
    free(job);
    if (!queue_status_is_success(status))
        return reject(consumer, tag,
                      status == QUEUE_BODY_TOO_BIG ? AMQP_IN_BODY_TOO_BIG : AMQP_IN_BAD_JOB,
                      queue_status_sentence(status), error);
    consumer->marks[tag & MARKS_MASK] = AMQP_IN_KEPT;
    atomic_fetch_add(&consumer->counts.taken, 1);
    set_refused(consumer, false, NULL);
    return true;
}

/* All up to the first that waits, with one acknowledgement. */
static bool acknowledge(struct amqp_in_consumer *consumer, char *error)
{
    uint64_t last = 0;
    for (; consumer->first < consumer->next; consumer->first++) {
        unsigned mark = consumer->marks[consumer->first & MARKS_MASK];
        if (mark == AMQP_IN_WAITS)
            break;
        if (mark == AMQP_IN_KEPT)
            last = consumer->first;
    }
    if (last == 0)
        return true;
    int status = amqp_basic_ack(consumer->link.state, AMQP_IN_CHANNEL, last, 1);
    if (status != AMQP_STATUS_OK)
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

static bool settle_batch(struct amqp_in_consumer *consumer, struct amqp_in_batch *batch,
                         char *error)
{
    bool ok = true;
    /* Tags of a connection that is gone mean nothing: the broker has delivered them again. */
    bool is_current = batch->generation == consumer->generation && consumer->link.state;
    for (size_t i = 0; is_current && i < batch->count; i++) {
        struct amqp_in_job *job = batch->jobs[i];
        batch->jobs[i] = NULL;
        if (ok)
            ok = settle_job(consumer, job, error);
        else
            free(job);
    }
    amqp_in_batch_free(batch);
    return ok;
}

static bool offer_again(struct amqp_in_consumer *consumer, char *error)
{
    if (list_is_empty(&consumer->again) || now_ms() < consumer->again_at_ms)
        return true;
    while (!list_is_empty(&consumer->again)) {
        struct amqp_in_job *job = list_entry(consumer->again.next, struct amqp_in_job, list);
        list_remove(&job->list);
        if (!add_job(consumer, job)) {
            free(job);
            snprintf(error, TARGET_ERROR_BYTES, "connection given up, out of memory");
            return false;
        }
    }
    amqp_in_flush(consumer);
    return true;
}

bool amqp_in_settle_batches(struct amqp_in_consumer *consumer, char *error)
{
    bool ok = true;
    for (;;) {
        pthread_mutex_lock(&consumer->mutex);
        struct list *first = consumer->settled.next;
        bool is_there = first != &consumer->settled;
        if (is_there)
            list_remove(first);
        pthread_mutex_unlock(&consumer->mutex);
        if (!is_there)
            break;
        consumer->batches_out--;
        ok = settle_batch(consumer, list_entry(first, struct amqp_in_batch, list), error) && ok;
    }
    if (!consumer->link.state)
        return true;
    return ok && acknowledge(consumer, error) && offer_again(consumer, error);
}

void amqp_in_forget(struct amqp_in_consumer *consumer)
{
    amqp_in_batch_free(consumer->open);
    consumer->open = NULL;
    while (!list_is_empty(&consumer->again)) {
        struct amqp_in_job *job = list_entry(consumer->again.next, struct amqp_in_job, list);
        list_remove(&job->list);
        free(job);
    }
    consumer->generation++;
    consumer->first = consumer->next = 1;
}
