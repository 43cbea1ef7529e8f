#include "amqp/consumer_private.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LOOK_MS = TARGET_AMQP_HEARTBEAT_S * 1000 / 2,
    PAUSE_MS = 100,
    PAUSE_MS_MAX = 5000,
    STOP_MS = 2000
};

int amqp_in_consumer_new(struct guard *guard, const struct amqp_in_source *source,
                         const char *version, const struct amqp_in_consumer_told *told, void *ctx,
                         struct amqp_in_consumer **out)
{
    struct amqp_in_consumer *consumer = calloc(1, sizeof(*consumer));
    if (!consumer)
        return -ENOMEM;
    consumer->source = source;
    consumer->told = *told;
    consumer->ctx = ctx;
    consumer->pause_ms = PAUSE_MS;
    consumer->first = consumer->next = 1;
    list_init(&consumer->again);
    list_init(&consumer->settled);
    int fault =
        target_amqp_link_init(&consumer->link, guard, &source->url, version, "tarry --amqp-in");
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
    while (!list_is_empty(&consumer->settled)) {
        struct list *first = consumer->settled.next;
        list_remove(first);
        amqp_in_batch_free(list_entry(first, struct amqp_in_batch, list));
    }
    amqp_in_forget(consumer);
    target_amqp_link_fini(&consumer->link);
    pthread_mutex_destroy(&consumer->mutex);
    free(consumer);
}

/* ---- the connection ---- */

static void lose(struct amqp_in_consumer *consumer, const char *error)
{
    target_amqp_link_close(&consumer->link, false);
    amqp_in_forget(consumer);
    atomic_store(&consumer->counts.is_connected, false);
    consumer->next_open_ms = clock_boot_us() / 1000 + consumer->pause_ms;
    consumer->pause_ms =
        consumer->pause_ms * 2 < PAUSE_MS_MAX ? consumer->pause_ms * 2 : PAUSE_MS_MAX;
    if (!consumer->said_lost && !atomic_load(&consumer->link.is_cut))
        log_event(LOG_WARN, "amqp-in not connected",
                  LOG_TEXT("broker", consumer->source->url.origin),
                  LOG_TEXT("queue", consumer->source->queue), LOG_TEXT("error", error));
    consumer->said_lost = true;
}

static bool begin_to_consume(struct amqp_in_consumer *consumer, char *error)
{
    amqp_connection_state_t state = consumer->link.state;
    const char *queue = consumer->source->queue;
    if (amqp_channel_open(state, AMQP_IN_CHANNEL) &&
        amqp_basic_qos(state, AMQP_IN_CHANNEL, 0, (uint16_t)consumer->source->prefetch, 0))
        amqp_basic_consume(state, AMQP_IN_CHANNEL, amqp_cstring_bytes(queue), amqp_empty_bytes, 0,
                           0, 0, amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(state);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    target_amqp_link_fault(reply, "the queue cannot be consumed", error);
    return false;
}

static void try_open(struct amqp_in_consumer *consumer)
{
    char error[TARGET_ERROR_BYTES];
    int64_t left_ms = consumer->next_open_ms - clock_boot_us() / 1000;
    if (left_ms > 0) {
        target_amqp_link_wait(&consumer->link, left_ms);
        (void)amqp_in_settle_batches(consumer, error);
        return;
    }
    if (!target_amqp_link_open(&consumer->link, error) || !begin_to_consume(consumer, error)) {
        lose(consumer, error);
        return;
    }
    atomic_store(&consumer->counts.is_connected, true);
    atomic_fetch_add(&consumer->counts.connections, 1);
    consumer->pause_ms = PAUSE_MS;
    consumer->said_lost = false;
    log_event(LOG_INFO, "amqp-in connected", LOG_TEXT("broker", consumer->source->url.origin),
              LOG_TEXT("queue", consumer->source->queue),
              LOG_TEXT("topic", consumer->source->topic),
              LOG_NUMBER("prefetch", consumer->source->prefetch));
}

/* A frame that is no delivery. */
static bool take_other(struct amqp_in_consumer *consumer, char *error)
{
    amqp_frame_t frame;
    int got = target_amqp_link_next(&consumer->link, &frame, error);
    if (got <= 0 || frame.frame_type != AMQP_FRAME_METHOD)
        return got >= 0;
    switch (frame.payload.method.id) {
    case AMQP_CONNECTION_CLOSE_METHOD:
        target_amqp_link_closed_by_peer(&consumer->link, frame.payload.method.decoded, error);
        return false;
    case AMQP_CHANNEL_CLOSE_METHOD: {
        const amqp_channel_close_t *close = frame.payload.method.decoded;
        target_amqp_link_say(error, close->reply_code, close->reply_text);
        return false;
    }
    case AMQP_BASIC_CANCEL_METHOD:
        snprintf(error, TARGET_ERROR_BYTES, "the queue is gone (basic.cancel)");
        return false;
    default:
        return true;
    }
}

/* All that is there. */
static bool read_messages(struct amqp_in_consumer *consumer, char *error)
{
    const struct timeval at_once = {0};
    for (;;) {
        amqp_envelope_t envelope;
        target_amqp_link_release(&consumer->link);
        amqp_rpc_reply_t reply = amqp_consume_message(consumer->link.state, &envelope, &at_once, 0);
        if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
            bool ok = amqp_in_take_message(consumer, &envelope, error);
            amqp_destroy_envelope(&envelope);
            if (!ok)
                return false;
            continue;
        }
        if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
            reply.library_error == AMQP_STATUS_TIMEOUT)
            return true;
        if (reply.reply_type != AMQP_RESPONSE_LIBRARY_EXCEPTION ||
            reply.library_error != AMQP_STATUS_UNEXPECTED_STATE) {
            target_amqp_link_fault(reply, "connection lost", error);
            return false;
        }
        if (!take_other(consumer, error))
            return false;
    }
}

static int64_t wait_ms(const struct amqp_in_consumer *consumer)
{
    int64_t left_ms = consumer->again_at_ms - clock_boot_us() / 1000;
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

/* What is on its way to the queue comes back soon; what is kept is acknowledged. */
static void finish(struct amqp_in_consumer *consumer)
{
    char error[TARGET_ERROR_BYTES];
    int64_t until_ms = clock_boot_us() / 1000 + STOP_MS, left_ms;
    amqp_in_flush(consumer);
    while (consumer->batches_out > 0 && (left_ms = until_ms - clock_boot_us() / 1000) > 0) {
        if (!amqp_in_settle_batches(consumer, error))
            target_amqp_link_close(&consumer->link, false);
        /* Not for what the broker sends: that it delivers again to somebody else. */
        if (consumer->batches_out > 0)
            target_amqp_link_wait_woken(&consumer->link, left_ms);
    }
    target_amqp_link_close(&consumer->link, !atomic_load(&consumer->link.is_cut));
    atomic_store(&consumer->counts.is_connected, false);
}

static void run(void *ctx)
{
    struct amqp_in_consumer *consumer = ctx;
    char error[TARGET_ERROR_BYTES];
    while (!is_stopping(consumer)) {
        if (!consumer->link.state) {
            try_open(consumer);
            continue;
        }
        bool ok = read_messages(consumer, error);
        amqp_in_flush(consumer);
        if (ok && amqp_in_settle_batches(consumer, error))
            target_amqp_link_wait(&consumer->link, wait_ms(consumer));
        else
            lose(consumer, error);
    }
    finish(consumer);
    consumer->told.ended(consumer->ctx);
}

int amqp_in_consumer_start(struct amqp_in_consumer *consumer)
{
    return -thread_start(&consumer->thread, "amqp-in", run, consumer);
}

void amqp_in_consumer_join(struct amqp_in_consumer *consumer)
{
    thread_join(consumer->thread);
}

/* ---- any thread ---- */

void amqp_in_consumer_settle(struct amqp_in_consumer *consumer, struct amqp_in_batch *batch)
{
    pthread_mutex_lock(&consumer->mutex);
    list_add_last(&consumer->settled, &batch->list);
    pthread_mutex_unlock(&consumer->mutex);
    target_amqp_link_wake(&consumer->link);
}

void amqp_in_consumer_stop(struct amqp_in_consumer *consumer, bool at_once)
{
    pthread_mutex_lock(&consumer->mutex);
    consumer->is_stopping = true;
    pthread_mutex_unlock(&consumer->mutex);
    if (at_once)
        target_amqp_link_cut(&consumer->link);
    else
        target_amqp_link_wake(&consumer->link);
}

const struct amqp_in_counts *amqp_in_consumer_counts(const struct amqp_in_consumer *consumer)
{
    return &consumer->counts;
}
