#include "intake/intake.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json_write.h"
#include "base/log.h"
#include "intake/kind.h"

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

struct intake {
    const struct intake_kind *kind;
    struct intake_options options;
    void *consumer; /* of the kind */
    struct intake_counts counts;
    enum phase phase;
    /* The next try in MAKING_TOPIC, the next check of the topic in CONSUMING, the latest stop in
     * STOPPING. */
    struct deadline *deadline;
    struct letter stopped_letter;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    bool has_thread, has_logged_topic, will_look;
};

static struct slice topic_of(const struct intake *in)
{
    return slice_of(in->kind->topic(in->consumer));
}

/* A batch on its way to the reactor and back. */
struct trip {
    struct letter letter;
    struct intake *in;
    struct intake_batch *batch;
};

/* ---- jobs ---- */

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct trip *trip = owner;
    struct intake *in = trip->in;
    struct intake_batch *batch = trip->batch;
    (void)tag;
    for (size_t i = 0; i < batch->count; i++)
        batch->jobs[i]->status =
            reply->status == QUEUE_OK ? reply->results[i].status : reply->status;
    free(trip);
    in->kind->settle(in->consumer, batch);
}

static void run_trip(struct letter *letter)
{
    struct trip *trip = list_entry(letter, struct trip, letter);
    struct intake *in = trip->in;
    struct queue *queue = in->options.queue;
    struct queue_push pushes[INTAKE_BATCH] = {0};
    for (size_t i = 0; i < trip->batch->count; i++) {
        const struct intake_job *job = trip->batch->jobs[i];
        pushes[i] = (struct queue_push){.topic = topic_of(in),
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
static void on_batch(void *ctx, struct intake_batch *batch)
{
    struct intake *in = ctx;
    struct trip *trip = malloc(sizeof *trip);
    if (!trip) {
        for (size_t i = 0; i < batch->count; i++)
            batch->jobs[i]->status = QUEUE_NO_MEMORY;
        in->kind->settle(in->consumer, batch);
        return;
    }
    *trip = (struct trip){.letter.run = run_trip, .in = in, .batch = batch};
    reactor_post(in->options.reactor, &trip->letter);
}

/* ---- the topic ---- */

static void begin_to_consume(struct intake *in)
{
    in->has_logged_topic = false;
    if (in->phase != MAKING_TOPIC)
        return;
    in->phase = CONSUMING;
    in->has_thread = in->kind->start(in->consumer);
    if (!in->has_thread)
        log_event(LOG_ERROR, "intake not started", LOG_TEXT("intake", in->kind->name),
                  LOG_TEXT("error", "no thread could be started"));
}

static void topic_try_later(struct intake *in)
{
    if (in->phase != MAKING_TOPIC && in->phase != CONSUMING)
        return;
    in->will_look = true;
    if (!in->has_logged_topic)
        log_event(LOG_WARN, "intake waits", LOG_TEXT("intake", in->kind->name),
                  LOG_TEXT("topic", in->kind->topic(in->consumer)),
                  LOG_TEXT("error", "the topic's settings cannot be read or stored now"));
    in->has_logged_topic = true;
    deadline_set(in->deadline, clock_inner_ms() + TOPIC_AGAIN_MS);
}

static void on_topic_put(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct intake *in = owner;
    (void)tag;
    if (reply->status == QUEUE_OK || reply->status == QUEUE_CREATED)
        begin_to_consume(in);
    else
        topic_try_later(in);
}

static void emit_extension(const struct intake *in, struct buffer *out)
{
    buffer_append_text(out, "{\"deliver\":");
    in->kind->emit_deliver(in->consumer, out);
    buffer_append_text(out, "}");
}

static void put_topic(struct intake *in, const struct topic_settings *given)
{
    struct queue *queue = in->options.queue;
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_PUT, .topic = topic_of(in)};
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
    struct intake *in = owner;
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

static void make_topic(struct intake *in)
{
    struct queue *queue = in->options.queue;
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET, .topic = topic_of(in)};
    queue_topic(queue, &call, (struct queue_reply_to){.done = on_topic_got, .owner = in});
}

/* ---- life ---- */

static void run_stopped(struct letter *letter)
{
    struct intake *in = list_entry(letter, struct intake, stopped_letter);
    in->phase = STOPPED;
    deadline_set(in->deadline, INT64_MAX);
    in->stopped(in->stopped_ctx);
}

static void post_stopped(struct intake *in)
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
    struct intake *in = ctx;
    if (in->phase == MAKING_TOPIC || in->phase == CONSUMING)
        make_topic(in);
    else if (in->phase == STOPPING)
        in->kind->stop(in->consumer, true);
}

bool intake_check(const struct intake_kind *kind, const char *url, bool delivers, char *error)
{
    if (!kind->open || delivers)
        return kind->check(slice_of(url), error);
    return error_text(error, INTAKE_ERROR_BYTES,
                      "'--%s' without '--deliver', its messages could not be published again, also "
                      "give --deliver FILE",
                      kind->name);
}

struct intake *intake_new(const struct intake_kind *kind, const struct intake_options *options,
                          char *error)
{
    static const struct intake_events events = {.batch = on_batch, .ended = on_ended};
    if (!kind->open) {
        kind->check(slice_of(options->url), error);
        return NULL;
    }
    snprintf(error, INTAKE_ERROR_BYTES, "out of memory or file descriptors");
    struct intake *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    *in = (struct intake){.kind = kind, .options = *options, .phase = NEW};
    const struct intake_consumer_options consumer = {.guard = options->guard,
                                                     .version = options->version,
                                                     .url = options->url,
                                                     .counts = &in->counts,
                                                     .events = &events,
                                                     .ctx = in};
    in->deadline = deadline_new(options->reactor, on_deadline, in);
    if (in->deadline)
        in->consumer = kind->open(&consumer, error);
    if (in->consumer)
        return in;
    intake_free(in);
    return NULL;
}

void intake_start(struct intake *in)
{
    assert(in->phase == NEW);
    in->phase = MAKING_TOPIC;
    make_topic(in);
}

void intake_stop(struct intake *in, void (*stopped)(void *ctx), void *ctx)
{
    assert(in->phase != STOPPING && in->phase != STOPPED);
    in->phase = STOPPING;
    in->stopped = stopped;
    in->stopped_ctx = ctx;
    deadline_set(in->deadline, clock_inner_ms() + CUT_MS);
    if (in->has_thread)
        in->kind->stop(in->consumer, false);
    else
        post_stopped(in);
}

void intake_free(struct intake *in)
{
    if (!in)
        return;
    deadline_free(in->deadline);
    if (in->consumer)
        in->kind->free(in->consumer);
    free(in);
}

/* ---- figures ---- */

const struct metric *intake_metrics(const struct intake_kind *kind)
{
    return kind->metrics;
}

static void emit_rejected(const struct intake *in, struct metric_page *page)
{
    metric_begin(page, &in->kind->metrics[INTAKE_METRIC_REJECTED]);
    for (unsigned i = INTAKE_BAD_DELAY; i <= INTAKE_BAD_JOB; i++)
        if (i != INTAKE_NO_MEMORY)
            metric_sample(page,
                          METRIC_LABELS(slice_of(intake_refusal_name((enum intake_refusal)i))),
                          in->counts.rejected[i]);
}

void intake_emit_metrics(struct intake *in, struct metric_page *page)
{
    if (!in)
        return;
    const struct intake_counts *counts = &in->counts;
    const struct metric *rows = in->kind->metrics;
    metric_write(page, &rows[INTAKE_METRIC_RECEIVED], counts->received);
    metric_write(page, &rows[INTAKE_METRIC_TAKEN], counts->taken);
    emit_rejected(in, page);
    metric_write(page, &rows[INTAKE_METRIC_AGAIN], counts->again);
    metric_write(page, &rows[INTAKE_METRIC_CONNECTIONS], counts->connections);
    metric_write(page, &rows[INTAKE_METRIC_CONNECTED], counts->is_connected);
    metric_write(page, &rows[INTAKE_METRIC_PAUSED], counts->is_refused);
}
