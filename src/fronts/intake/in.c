#include "intake/in.h"

#include "base/clock.h"
#include "base/json_write.h"
#include "base/log.h"
#include "intake/consumer.h"
#include "targets/amqp/message.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CUT_MS = 3000, /* after it, a thread that is blocked in a call is interrupted */
    TOPIC_AGAIN_MS = 1000,
    TOPIC_LOOK_MS = 1000, /* after messages: the topic may have been deleted */
    REMEMBER_MS = 60000   /* ids of finished jobs, for redeliveries */
};

enum phase { NEW = 1, MAKING_TOPIC, CONSUMING, STOPPING, STOPPED };

struct amqp_in {
    struct amqp_in_options options;
    struct amqp_in_source source;
    struct amqp_in_consumer *consumer;
    struct amqp_in_counts counts;
    enum phase phase;
    /* The next try in MAKING_TOPIC, the next check of the topic in CONSUMING, the latest stop in
     * STOPPING. */
    struct deadline *deadline;
    struct letter stopped_letter;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    bool has_thread, has_logged_topic, will_look;
};

/* A batch on its way to the reactor and back. */
struct trip {
    struct letter letter;
    struct amqp_in *in;
    struct amqp_in_batch *batch;
};

/* ---- jobs ---- */

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct trip *trip = owner;
    struct amqp_in *in = trip->in;
    struct amqp_in_batch *batch = trip->batch;
    (void)tag;
    for (size_t i = 0; i < batch->count; i++)
        batch->jobs[i]->status =
            reply->status == QUEUE_OK ? reply->results[i].status : reply->status;
    free(trip);
    amqp_in_consumer_settle(in->consumer, batch);
}

static void run_trip(struct letter *letter)
{
    struct trip *trip = list_entry(letter, struct trip, letter);
    struct amqp_in *in = trip->in;
    struct queue *queue = in->options.queue;
    struct queue_push pushes[AMQP_IN_BATCH] = {0};
    for (size_t i = 0; i < trip->batch->count; i++) {
        const struct amqp_in_job *job = trip->batch->jobs[i];
        pushes[i] = (struct queue_push){.topic = slice_of(in->source.topic),
                                        .id = job->id,
                                        .content_type = job->content_type,
                                        .meta = job->meta,
                                        .body = job->body,
                                        .when = job->when,
                                        .priority = QUEUE_PRIORITY_UNSET,
                                        .on_conflict = CONFLICT_KEEP};
    }
    queue_push(
        queue, pushes, trip->batch->count,
        (struct queue_reply_to){.done = on_pushed, .owner = trip, .caller = in->options.caller});
    if (in->phase == CONSUMING && !in->will_look) {
        in->will_look = true;
        deadline_set(in->deadline, clock_inner_ms() + TOPIC_LOOK_MS);
    }
}

/* Sends a batch to the reactor. Runs on the consumer's thread. */
static void on_batch(void *ctx, struct amqp_in_batch *batch)
{
    struct amqp_in *in = ctx;
    struct trip *trip = malloc(sizeof *trip);
    if (!trip) {
        for (size_t i = 0; i < batch->count; i++)
            batch->jobs[i]->status = QUEUE_NO_MEMORY;
        amqp_in_consumer_settle(in->consumer, batch);
        return;
    }
    *trip = (struct trip){.letter.run = run_trip, .in = in, .batch = batch};
    reactor_post(in->options.reactor, &trip->letter);
}

/* ---- the topic ---- */

static void begin_to_consume(struct amqp_in *in)
{
    in->has_logged_topic = false;
    if (in->phase != MAKING_TOPIC)
        return;
    in->phase = CONSUMING;
    in->has_thread = amqp_in_consumer_start(in->consumer);
    if (!in->has_thread)
        log_event(LOG_ERROR, "amqp-in not started",
                  LOG_TEXT("error", "no thread could be started"));
}

static void topic_try_later(struct amqp_in *in)
{
    if (in->phase != MAKING_TOPIC && in->phase != CONSUMING)
        return;
    in->will_look = true;
    if (!in->has_logged_topic)
        log_event(LOG_WARN, "amqp-in waits", LOG_TEXT("topic", in->source.topic),
                  LOG_TEXT("error", "the topic's settings cannot be read or stored now"));
    in->has_logged_topic = true;
    deadline_set(in->deadline, clock_inner_ms() + TOPIC_AGAIN_MS);
}

static void on_topic_put(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct amqp_in *in = owner;
    (void)tag;
    if (reply->status == QUEUE_OK || reply->status == QUEUE_CREATED)
        begin_to_consume(in);
    else
        topic_try_later(in);
}

static void emit_extension(const struct amqp_in *in, struct buffer *out)
{
    buffer_append_text(out, "{\"deliver\":{\"to\":");
    json_write_string(out, in->source.place);
    buffer_append_text(out, ",\"exchange\":\"{meta." TARGET_AMQP_META_EXCHANGE
                            "}\",\"routing_key\":\"{meta." TARGET_AMQP_META_ROUTING_KEY
                            "}\",\"max_in_flight\":1000}}");
}

static void put_topic(struct amqp_in *in, const struct topic_settings *given)
{
    struct queue *queue = in->options.queue;
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_PUT, .topic = slice_of(in->source.topic)};
    struct buffer extension;
    buffer_init(&extension, TOPIC_EXTENSION_BYTES_MAX);
    emit_extension(in, &extension);
    call.settings = *given;
    call.settings.extension = buffer_slice(&extension);
    if (!call.settings.dedup_window_ms)
        call.settings.dedup_window_ms = REMEMBER_MS;
    queue_topic(queue, &call, (struct queue_reply_to){.done = on_topic_put, .owner = in});
    buffer_fini(&extension);
}

/* Checks the settings of the topic. Existing settings are not changed: destination and speed are
 * the operator's choice. */
static void on_topic_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    static const struct topic_settings none;
    struct amqp_in *in = owner;
    (void)tag;
    in->will_look = false;
    if (in->phase == STOPPING || in->phase == STOPPED)
        return;
    if (reply->status == QUEUE_NOT_FOUND)
        put_topic(in, &none);
    else if (reply->status != QUEUE_OK || reply->topic_count == 0)
        topic_try_later(in);
    else if (reply->topics[0].settings.extension.len == 0)
        put_topic(in, &reply->topics[0].settings);
    else
        begin_to_consume(in);
}

static void make_topic(struct amqp_in *in)
{
    struct queue *queue = in->options.queue;
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET,
                                          .topic = slice_of(in->source.topic)};
    queue_topic(queue, &call, (struct queue_reply_to){.done = on_topic_got, .owner = in});
}

/* ---- life ---- */

static void run_stopped(struct letter *letter)
{
    struct amqp_in *in = list_entry(letter, struct amqp_in, stopped_letter);
    in->phase = STOPPED;
    deadline_set(in->deadline, INT64_MAX);
    in->stopped(in->stopped_ctx);
}

static void post_stopped(struct amqp_in *in)
{
    in->stopped_letter.run = run_stopped;
    reactor_post(in->options.reactor, &in->stopped_letter);
}

/* Reports the end of the consumer. Runs on the consumer's thread. */
static void on_ended(void *ctx)
{
    post_stopped(ctx);
}

static void on_deadline(void *ctx)
{
    struct amqp_in *in = ctx;
    if (in->phase == MAKING_TOPIC || in->phase == CONSUMING)
        make_topic(in);
    else if (in->phase == STOPPING)
        amqp_in_consumer_stop(in->consumer, true);
}

struct amqp_in *amqp_in_new(const struct amqp_in_options *options, char *error)
{
    static const struct amqp_in_consumer_events events = {.batch = on_batch, .ended = on_ended};
    struct amqp_in_source source;
    if (!amqp_in_source_parse(slice_of(options->url), &source, error))
        return NULL;
    snprintf(error, AMQP_IN_ERROR_BYTES, "out of memory or file descriptors");
    struct amqp_in *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    *in = (struct amqp_in){.options = *options, .source = source, .phase = NEW};
    in->deadline = deadline_new(options->reactor, on_deadline, in);
    if (!in->deadline || amqp_in_consumer_new(options->guard, &in->source, options->version,
                                              &in->counts, &events, in, &in->consumer) != 0) {
        amqp_in_free(in);
        return NULL;
    }
    return in;
}

void amqp_in_start(struct amqp_in *in)
{
    assert(in->phase == NEW);
    in->phase = MAKING_TOPIC;
    make_topic(in);
}

void amqp_in_stop(struct amqp_in *in, void (*stopped)(void *ctx), void *ctx)
{
    assert(in->phase != STOPPING && in->phase != STOPPED);
    in->phase = STOPPING;
    in->stopped = stopped;
    in->stopped_ctx = ctx;
    deadline_set(in->deadline, clock_inner_ms() + CUT_MS);
    if (in->has_thread)
        amqp_in_consumer_stop(in->consumer, false);
    else
        post_stopped(in);
}

void amqp_in_free(struct amqp_in *in)
{
    if (!in)
        return;
    deadline_free(in->deadline);
    amqp_in_consumer_free(in->consumer);
    free(in);
}

/* ---- figures ---- */

enum { RECEIVED, TAKEN, REJECTED, OFFERED_AGAIN, CONNECTIONS, IS_CONNECTED, IS_PAUSED };

static void emit_rejected(const struct amqp_in_counts *counts, struct metric_page *page)
{
    metric_begin(page, &amqp_in_metrics[REJECTED]);
    for (unsigned i = AMQP_IN_BAD_DELAY; i <= AMQP_IN_BAD_JOB; i++)
        if (i != AMQP_IN_NO_MEMORY)
            metric_sample(page,
                          METRIC_LABELS(slice_of(amqp_in_refusal_name((enum amqp_in_refusal)i))),
                          counts->rejected[i]);
}

void amqp_in_emit_metrics(struct amqp_in *in, struct metric_page *page)
{
    if (!in)
        return;
    const struct amqp_in_counts *counts = &in->counts;
    metric_write(page, &amqp_in_metrics[RECEIVED], counts->received);
    metric_write(page, &amqp_in_metrics[TAKEN], counts->taken);
    emit_rejected(counts, page);
    metric_write(page, &amqp_in_metrics[OFFERED_AGAIN], counts->again);
    metric_write(page, &amqp_in_metrics[CONNECTIONS], counts->connections);
    metric_write(page, &amqp_in_metrics[IS_CONNECTED], counts->is_connected);
    metric_write(page, &amqp_in_metrics[IS_PAUSED], counts->is_refused);
}

#define AMQP_IN_ON .when = "with `--amqp-in`"

const struct metric amqp_in_metrics[] = {
    [RECEIVED] = {.name = "tarry_amqp_in_received_total",
                  .type = PROMETHEUS_COUNTER,
                  .help = "Messages that RabbitMQ delivered to --amqp-in.",
                  .meaning = "Does not change while the queue in RabbitMQ grows: check "
                             "`tarry_amqp_in_connected` and `tarry_amqp_in_paused`.",
                  AMQP_IN_ON},
    [TAKEN] = {.name = "tarry_amqp_in_taken_total",
               .type = PROMETHEUS_COUNTER,
               .help = "Messages of --amqp-in that were stored as jobs and acknowledged.",
               .meaning = "Less than the received ones if messages are rejected or put aside.",
               AMQP_IN_ON},
    [REJECTED] = {.name = "tarry_amqp_in_rejected_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"reason"},
                  .help = "Messages of --amqp-in that can never be accepted, by reason.",
                  .meaning = "A publisher sends invalid messages. RabbitMQ dead-letters them if "
                             "their queue has a dead letter exchange, otherwise they are lost.",
                  AMQP_IN_ON},
    [OFFERED_AGAIN] = {.name = "tarry_amqp_in_offered_again_total",
                       .type = PROMETHEUS_COUNTER,
                       .help = "Times a message of --amqp-in was put aside for a later try.",
                       .meaning =
                           "Rises while the store accepts no jobs, or a topic is full. "
                           "`tarry_limits_met_total` and `tarry_store_accepting` show the cause.",
                       AMQP_IN_ON},
    [CONNECTIONS] = {.name = "tarry_amqp_in_connections_total",
                     .type = PROMETHEUS_COUNTER,
                     .help = "Connections that --amqp-in has made.",
                     .meaning =
                         "Rises repeatedly: RabbitMQ or the network cuts it. The log has each "
                         "reason.",
                     AMQP_IN_ON},
    [IS_CONNECTED] = {.name = "tarry_amqp_in_connected",
                      .type = PROMETHEUS_GAUGE,
                      .help = "1 while --amqp-in is connected and consumes.",
                      .meaning =
                          "0 for a minute: no message arrives from RabbitMQ. The log has the "
                          "reason.",
                      AMQP_IN_ON},
    [IS_PAUSED] = {.name = "tarry_amqp_in_paused",
                   .type = PROMETHEUS_GAUGE,
                   .help = "1 while the store accepts nothing from --amqp-in.",
                   .meaning = "The store refuses pushes: see the runbook page *full*.",
                   AMQP_IN_ON},
    METRIC_END};
