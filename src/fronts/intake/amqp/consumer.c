#include "intake/amqp/consumer.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/thread.h"
#include "queue/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CHANNEL = 1,
    WINDOW = 2 * AMQP_IN_PREFETCH_MAX, /* must be a power of two */
    MARKS_MASK = WINDOW - 1,
    LOOK_MS = TARGET_AMQP_HEARTBEAT_S * 1000 / 2,
    PAUSE_MS = 100,
    PAUSE_MS_MAX = 5000,
    AGAIN_MS = 1000,
    STOP_MS = 2000,
    PROVEN_MS = 10000 /* a connection of this age is stable, even without a message */
};

static const struct intake_lines lines = {.connected = "amqp-in connected",
                                          .not_connected = "amqp-in not connected",
                                          .paused = "amqp-in paused",
                                          .resumes = "amqp-in resumes",
                                          .rejected = "amqp-in message rejected"};

enum mark { MARK_WAITS = 1, MARK_KEPT, MARK_REJECTED }; /* state of a message */

struct amqp_in_consumer { /* owned by the thread, except what the mutex guards */
    const struct amqp_in_source *source;
    struct target_amqp_connection link;
    struct intake_events events;
    void *ctx;
    struct intake_counts *counts; /* owned by the caller */
    pthread_t thread;
    bool has_thread;

    uint64_t generation;         /* incremented with each connection */
    uint64_t first, next;        /* range of delivery tags that are not acknowledged */
    unsigned char marks[WINDOW]; /* enum mark by delivery tag */
    struct intake_batch *open;   /* the batch being filled, or NULL */
    struct list again;           /* jobs that were refused and will be offered again */
    int64_t again_at_ms;
    size_t batches_out;
    int64_t pause_ms, next_open_ms, opened_ms;
    uint64_t misread;     /* tag of the message that could not be decoded, or 0 */
    bool is_renewing;     /* the connection is reopened after such a message */
    bool is_proven;       /* a message was settled, or the connection has lasted PROVEN_MS */
    bool has_logged_loss; /* whether the loss of the connection has been logged */
    struct intake_rejections rejections;

    pthread_mutex_t mutex; /* guards the members below */
    struct list settled;   /* batches that came back */
    bool is_stopping;
};

/* ---- stability of the connection ---- */

static void log_connected(const struct amqp_in_consumer *consumer)
{
    log_event(LOG_INFO, lines.connected, LOG_TEXT("broker", consumer->source->broker.at.origin),
              LOG_TEXT("queue", consumer->source->queue),
              LOG_TEXT("topic", consumer->source->topic),
              LOG_NUMBER("prefetch", consumer->source->prefetch));
}

/* Marks the connection as stable; only the next loss is then logged and retried as a new one.
 * Otherwise a broker that accepts every connection and closes it would be called without a pause
 * and flood the log. */
static void connection_prove(struct amqp_in_consumer *consumer)
{
    if (consumer->is_proven)
        return;
    consumer->is_proven = true;
    consumer->pause_ms = PAUSE_MS;
    if (consumer->has_logged_loss)
        log_connected(consumer);
    consumer->has_logged_loss = false;
}

/* ---- rejected messages ---- */

static bool message_reject(struct amqp_in_consumer *consumer, uint64_t tag,
                           enum intake_refusal refusal, const char *why, char *error)
{
    intake_reject(&consumer->rejections, &lines, consumer->counts, refusal, "queue",
                  consumer->source->queue, why);
    consumer->marks[tag & MARKS_MASK] = MARK_REJECTED;
    int status = amqp_basic_reject(consumer->link.state, CHANNEL, tag, 0);
    if (status == AMQP_STATUS_OK)
        connection_prove(consumer);
    else
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

/* ---- batches to the queue ---- */

/* Passes the open batch on. */
static void batch_flush(struct amqp_in_consumer *consumer)
{
    struct intake_batch *batch = consumer->open;
    if (!batch)
        return;
    consumer->open = NULL;
    consumer->batches_out++;
    consumer->events.batch(consumer->ctx, batch);
}

/* Adds a job to the open batch. Returns false if out of memory. */
static bool batch_add(struct amqp_in_consumer *consumer, struct intake_job *job)
{
    if (!consumer->open && !(consumer->open = calloc(1, sizeof *consumer->open)))
        return false;
    consumer->open->generation = consumer->generation;
    consumer->open->jobs[consumer->open->count++] = job;
    if (consumer->open->count == INTAKE_BATCH)
        batch_flush(consumer);
    return true;
}

/* Takes a delivered message. Returns false if the connection is no longer usable; then `error`
 * (TARGET_ERROR_BYTES) describes the reason. */
static bool message_take(struct amqp_in_consumer *consumer, const amqp_envelope_t *envelope,
                         char *error)
{
    struct intake_job *job = NULL;
    char why[INTAKE_ERROR_BYTES];
    uint64_t tag = envelope->delivery_tag;
    if (tag != consumer->next || tag - consumer->first >= WINDOW) {
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, a delivery tag out of order");
        return false;
    }
    atomic_fetch_add(&consumer->counts->received, 1);
    consumer->next++;
    consumer->marks[tag & MARKS_MASK] = MARK_WAITS;
    enum intake_refusal refusal = amqp_in_message_take(consumer->source, envelope, &job, why);
    if (refusal == INTAKE_TAKEN && batch_add(consumer, job))
        return true;
    free(job);
    if (refusal != INTAKE_TAKEN && refusal != INTAKE_NO_MEMORY)
        return message_reject(consumer, tag, refusal, why, error);
    /* The broker redelivers the message after the connection is closed. */
    snprintf(error, TARGET_ERROR_BYTES, "connection closed, out of memory");
    return false;
}

/* ---- batches from the queue ---- */

static bool job_settle(struct amqp_in_consumer *consumer, struct intake_job *job, char *error)
{
    uint64_t tag = job->tag;
    enum queue_status status = job->status;
    if (status == QUEUE_EXISTED && !job->may_be_there) {
        /* Not a redelivery: a publisher has sent the same message twice on purpose. */
        job->id.len = 0;
        list_add_last(&consumer->again, &job->list);
        return true;
    }
    if (queue_status_is_for_later(status)) {
        job->may_be_there = true;
        intake_set_refused(consumer->counts, INTAKE_PARTY_AMQP, &lines, true,
                           queue_status_sentence(status));
        atomic_fetch_add(&consumer->counts->again, 1);
        list_add_last(&consumer->again, &job->list);
        consumer->again_at_ms = clock_boot_ms() + AGAIN_MS;
        return true;
    }
    free(job);
    if (!queue_status_is_success(status))
        return message_reject(consumer, tag,
                              status == QUEUE_BODY_TOO_BIG ? INTAKE_BODY_TOO_BIG : INTAKE_BAD_JOB,
                              queue_status_sentence(status), error);
    consumer->marks[tag & MARKS_MASK] = MARK_KEPT;
    atomic_fetch_add(&consumer->counts->taken, 1);
    if (list_is_empty(&consumer->again))
        intake_set_refused(consumer->counts, INTAKE_PARTY_AMQP, &lines, false, NULL);
    return true;
}

/* Acknowledges all messages before the first waiting one, in a single call. */
static bool messages_acknowledge(struct amqp_in_consumer *consumer, char *error)
{
    uint64_t last = 0;
    for (; consumer->first < consumer->next; consumer->first++) {
        unsigned mark = consumer->marks[consumer->first & MARKS_MASK];
        if (mark == MARK_WAITS)
            break;
        if (mark == MARK_KEPT)
            last = consumer->first;
    }
    if (last == 0)
        return true;
    int status = amqp_basic_ack(consumer->link.state, CHANNEL, last, 1);
    if (status == AMQP_STATUS_OK)
        connection_prove(consumer);
    else
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

static bool batch_settle(struct amqp_in_consumer *consumer, struct intake_batch *batch, char *error)
{
    bool ok = true;
    /* Delivery tags of a closed connection are invalid: the broker has redelivered the messages. */
    bool is_current = batch->generation == consumer->generation && consumer->link.state;
    for (size_t i = 0; is_current && i < batch->count; i++) {
        struct intake_job *job = batch->jobs[i];
        batch->jobs[i] = NULL;
        if (ok)
            ok = job_settle(consumer, job, error);
        else
            free(job);
    }
    intake_batch_free(batch);
    return ok;
}

static bool jobs_offer_again(struct amqp_in_consumer *consumer, char *error)
{
    if (list_is_empty(&consumer->again) || clock_boot_ms() < consumer->again_at_ms)
        return true;
    while (!list_is_empty(&consumer->again)) {
        struct intake_job *job = list_entry(consumer->again.next, struct intake_job, list);
        list_remove(&job->list);
        if (!batch_add(consumer, job)) {
            free(job);
            snprintf(error, TARGET_ERROR_BYTES, "connection closed, out of memory");
            return false;
        }
    }
    batch_flush(consumer);
    return true;
}

/* Acknowledges, rejects or sets aside the jobs that came back, and offers waiting jobs again when
 * it is time. Returns false if the connection is lost, as message_take does. */
static bool batches_settle(struct amqp_in_consumer *consumer, char *error)
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
        ok = batch_settle(consumer, list_entry(first, struct intake_batch, list), error) && ok;
    }
    if (!consumer->link.state)
        return true;
    return ok && messages_acknowledge(consumer, error) && jobs_offer_again(consumer, error);
}

/* Passes on the open batch, and waits for the batches in the queue, which come back soon. Returns
 * false if the connection was lost meanwhile; `error` describes the reason. */
static bool batches_await(struct amqp_in_consumer *consumer, char *error)
{
    int64_t until_ms = clock_boot_ms() + STOP_MS, left_ms;
    bool ok = true;
    batch_flush(consumer);
    while (consumer->batches_out > 0 && (left_ms = until_ms - clock_boot_ms()) > 0) {
        if (!batches_settle(consumer, error)) {
            target_amqp_connection_close(&consumer->link, false);
            ok = false;
        }
        /* Waits without reading: the broker redelivers unread messages to another consumer. */
        if (consumer->batches_out > 0)
            target_amqp_connection_wait_woken(&consumer->link, left_ms);
    }
    return ok;
}

/* Forgets the messages of a lost connection, which will be redelivered. */
static void connection_forget(struct amqp_in_consumer *consumer)
{
    intake_batch_free(consumer->open);
    consumer->open = NULL;
    while (!list_is_empty(&consumer->again)) {
        struct intake_job *job = list_entry(consumer->again.next, struct intake_job, list);
        list_remove(&job->list);
        free(job);
    }
    consumer->generation++;
    consumer->first = consumer->next = 1;
}

/* ---- the connection ---- */

static void connection_lose(struct amqp_in_consumer *consumer, const char *error)
{
    target_amqp_connection_close(&consumer->link, false);
    connection_forget(consumer);
    intake_set_connected(consumer->counts, INTAKE_PARTY_AMQP, false);
    consumer->next_open_ms = clock_boot_ms() + consumer->pause_ms;
    consumer->pause_ms =
        consumer->pause_ms * 2 < PAUSE_MS_MAX ? consumer->pause_ms * 2 : PAUSE_MS_MAX;
    if (!consumer->has_logged_loss && !atomic_load(&consumer->link.is_cut))
        log_event(LOG_WARN, lines.not_connected,
                  LOG_TEXT("broker", consumer->source->broker.at.origin),
                  LOG_TEXT("queue", consumer->source->queue), LOG_TEXT("error", error));
    consumer->has_logged_loss = true;
    consumer->is_renewing = false;
}

/* Settles the messages before one that could not be decoded, rejects that message, and reopens the
 * connection immediately. */
static void connection_renew(struct amqp_in_consumer *consumer)
{
    char error[TARGET_ERROR_BYTES];
    uint64_t tag = consumer->misread;
    consumer->misread = 0;
    if (!batches_await(consumer, error) || !consumer->link.state ||
        !message_reject(consumer, tag, INTAKE_UNDECODABLE,
                        "its headers cannot be decoded, such as one with an empty name", error)) {
        connection_lose(consumer, error);
        return;
    }
    target_amqp_connection_close_unread(&consumer->link);
    connection_forget(consumer);
    consumer->next_open_ms = 0;
    consumer->is_renewing = true;
}

static bool connection_consume(struct amqp_in_consumer *consumer, char *error)
{
    amqp_connection_state_t state = consumer->link.state;
    const char *queue = consumer->source->queue;
    if (amqp_channel_open(state, CHANNEL) &&
        amqp_basic_qos(state, CHANNEL, 0, (uint16_t)consumer->source->prefetch, 0))
        amqp_basic_consume(state, CHANNEL, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0,
                           amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(state);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    target_amqp_connection_fault(reply, "the queue cannot be consumed", error);
    return false;
}

static void connection_try(struct amqp_in_consumer *consumer)
{
    char error[TARGET_ERROR_BYTES];
    int64_t left_ms = consumer->next_open_ms - clock_boot_ms();
    if (left_ms > 0) {
        target_amqp_connection_wait(&consumer->link, left_ms);
        (void)batches_settle(consumer, error);
        return;
    }
    if (!target_amqp_connection_open(&consumer->link, error) ||
        !connection_consume(consumer, error)) {
        connection_lose(consumer, error);
        return;
    }
    intake_set_connected(consumer->counts, INTAKE_PARTY_AMQP, true);
    atomic_fetch_add(&consumer->counts->connections, 1);
    consumer->opened_ms = clock_boot_ms();
    consumer->is_proven = false;
    if (!consumer->has_logged_loss && !consumer->is_renewing)
        log_connected(consumer);
    consumer->is_renewing = false;
}

/* Handles a frame that is not a delivery. */
static bool frame_take(struct amqp_in_consumer *consumer, char *error)
{
    amqp_frame_t frame;
    int got = target_amqp_connection_next(&consumer->link, &frame, error);
    if (got <= 0 || frame.frame_type != AMQP_FRAME_METHOD)
        return got >= 0;
    switch (frame.payload.method.id) {
    case AMQP_CONNECTION_CLOSE_METHOD:
        target_amqp_connection_closed_by_peer(&consumer->link, frame.payload.method.decoded, error);
        return false;
    case AMQP_CHANNEL_CLOSE_METHOD: {
        const amqp_channel_close_t *close = frame.payload.method.decoded;
        target_amqp_connection_describe(error, close->reply_code, close->reply_text);
        return false;
    }
    case AMQP_BASIC_CANCEL_METHOD:
        snprintf(error, TARGET_ERROR_BYTES, "the queue is gone (basic.cancel)");
        return false;
    default:
        return true;
    }
}

/* Reads all available messages. Returns false if nothing more can be read: `misread` is set, or
 * `error` describes the reason. */
static bool messages_read(struct amqp_in_consumer *consumer, char *error)
{
    const struct timeval at_once = {0};
    for (;;) {
        amqp_envelope_t envelope;
        target_amqp_connection_release(&consumer->link);
        amqp_rpc_reply_t reply = amqp_consume_message(consumer->link.state, &envelope, &at_once, 0);
        if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
            bool ok = message_take(consumer, &envelope, error);
            amqp_destroy_envelope(&envelope);
            if (!ok)
                return false;
            continue;
        }
        if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
            reply.library_error == AMQP_STATUS_TIMEOUT)
            return true;
        if (target_amqp_connection_is_misread(reply) && envelope.delivery_tag == consumer->next) {
            atomic_fetch_add(&consumer->counts->received, 1);
            consumer->misread = consumer->next++;
            consumer->marks[consumer->misread & MARKS_MASK] = MARK_WAITS;
            return false;
        }
        if (reply.reply_type != AMQP_RESPONSE_LIBRARY_EXCEPTION ||
            reply.library_error != AMQP_STATUS_UNEXPECTED_STATE) {
            target_amqp_connection_fault(reply, "connection lost", error);
            return false;
        }
        if (!frame_take(consumer, error))
            return false;
    }
}

static int64_t wait_ms(const struct amqp_in_consumer *consumer)
{
    int64_t left_ms = consumer->again_at_ms - clock_boot_ms();
    if (list_is_empty(&consumer->again) || left_ms > LOOK_MS)
        return LOOK_MS;
    return left_ms > 0 ? left_ms : 0;
}

static bool is_stopping(struct amqp_in_consumer *consumer)
{
    pthread_mutex_lock(&consumer->mutex);
    bool stopping = consumer->is_stopping;
    pthread_mutex_unlock(&consumer->mutex);
    return stopping;
}

/* Acknowledges stored messages before the end. */
static void consumer_finish(struct amqp_in_consumer *consumer)
{
    char error[TARGET_ERROR_BYTES];
    (void)batches_await(consumer, error);
    target_amqp_connection_close(&consumer->link, !atomic_load(&consumer->link.is_cut));
    atomic_store(&consumer->counts->is_connected, false);
}

static void consumer_run(void *ctx)
{
    struct amqp_in_consumer *consumer = ctx;
    char error[TARGET_ERROR_BYTES];
    while (!is_stopping(consumer)) {
        if (!consumer->link.state) {
            connection_try(consumer);
            continue;
        }
        bool ok = messages_read(consumer, error);
        batch_flush(consumer);
        if (ok && batches_settle(consumer, error)) {
            if (clock_boot_ms() - consumer->opened_ms >= PROVEN_MS)
                connection_prove(consumer);
            target_amqp_connection_wait(&consumer->link, wait_ms(consumer));
        } else if (consumer->misread) {
            connection_renew(consumer);
        } else {
            connection_lose(consumer, error);
        }
    }
    consumer_finish(consumer);
    consumer->events.ended(consumer->ctx);
}

/* ---- life ---- */

int amqp_in_consumer_new(struct guard *guard, const struct amqp_in_source *source,
                         const char *version, struct intake_counts *counts,
                         const struct intake_events *events, void *ctx,
                         struct amqp_in_consumer **out)
{
    struct amqp_in_consumer *consumer = calloc(1, sizeof *consumer);
    if (!consumer)
        return -ENOMEM;
    consumer->source = source;
    consumer->counts = counts;
    consumer->events = *events;
    consumer->ctx = ctx;
    consumer->pause_ms = PAUSE_MS;
    consumer->first = consumer->next = 1;
    list_init(&consumer->again);
    list_init(&consumer->settled);
    int fault = target_amqp_connection_init(&consumer->link, guard, &source->broker, version,
                                            "tarry --amqp-in");
    if (fault != 0) {
        free(consumer);
        return fault;
    }
    pthread_mutex_init(&consumer->mutex, NULL);
    *out = consumer;
    return 0;
}

void amqp_in_consumer_free(struct amqp_in_consumer *consumer)
{
    if (!consumer)
        return;
    if (consumer->has_thread) {
        amqp_in_consumer_stop(consumer, true);
        thread_join(consumer->thread);
    }
    while (!list_is_empty(&consumer->settled)) {
        struct list *first = consumer->settled.next;
        list_remove(first);
        intake_batch_free(list_entry(first, struct intake_batch, list));
    }
    connection_forget(consumer);
    target_amqp_connection_fini(&consumer->link);
    pthread_mutex_destroy(&consumer->mutex);
    free(consumer);
}

bool amqp_in_consumer_start(struct amqp_in_consumer *consumer)
{
    consumer->has_thread = thread_start(&consumer->thread, "amqp-in", consumer_run, consumer) == 0;
    return consumer->has_thread;
}

/* ---- any thread ---- */

void amqp_in_consumer_settle(struct amqp_in_consumer *consumer, struct intake_batch *batch)
{
    pthread_mutex_lock(&consumer->mutex);
    list_add_last(&consumer->settled, &batch->list);
    pthread_mutex_unlock(&consumer->mutex);
    target_amqp_connection_wake(&consumer->link);
}

void amqp_in_consumer_stop(struct amqp_in_consumer *consumer, bool at_once)
{
    pthread_mutex_lock(&consumer->mutex);
    consumer->is_stopping = true;
    pthread_mutex_unlock(&consumer->mutex);
    if (at_once)
        target_amqp_connection_cut(&consumer->link);
    else
        target_amqp_connection_wake(&consumer->link);
}
