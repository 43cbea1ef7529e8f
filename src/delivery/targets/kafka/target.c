/*
 * kafka_target: a Kafka cluster, through librdkafka.
 *
 * The producer is idempotent: messages that librdkafka itself sends again are stored once. A job
 * that returned as FAILED is a new message; if the first one had arrived without a confirm, it is
 * stored twice. A producer that cannot start, fails permanently or is idle is retired; the next
 * message opens another.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "targets/kafka/producer.h"
#include "targets/kafka/record.h"
#include "targets/meta.h"
#include "targets/outbox.h"
#include "targets/parts.h"
#include "targets/template.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    GRACE_MS = 2000,     /* librdkafka checks for timeouts once a second */
    IDLE_MS = 60 * 1000, /* its threads wake up even when idle */
    GIVE_UP_MS = 1000,   /* time for librdkafka to return the messages in flight */
    TOPIC_BYTES_MAX = 249,
    KEY_BYTES_MAX = 1024,
    HEADERS_EXPECTED = 8
};

struct kafka {
    struct target target; /* first */
    struct outbox outbox;
    struct kafka_place place;
    struct kafka_producer *producer; /* may be NULL */
    size_t retired;                  /* retired producers that are not gone yet */
    int64_t idle_ms;                 /* time since nothing is in flight */
    /* time at which the producer is retired even with messages in flight; INT64_MAX if not set */
    int64_t give_up_ms;
    struct outbox_pause pause;
    bool has_delivered;           /* this producer has delivered a message */
    char why[TARGET_ERROR_BYTES]; /* reason why the producer is given up */
};

/* ---- a job as a record ---- */

struct kafka_record {
    char topic[TOPIC_BYTES_MAX + 1];
    struct buffer key;           /* may be empty */
    bool has_key, has_body;      /* an empty one is also sent */
    rd_kafka_headers_t *headers; /* NULL once it is sent */
};

static const char *topic_fault(struct slice topic)
{
    bool is_sound = topic.len > 0 && !slice_is(topic, ".") && !slice_is(topic, "..") &&
                    text_is_word(topic, "._-");
    return is_sound ? NULL
                    : "kafka: the topic's name is invalid, it may contain only letters, digits, "
                      "'.', '_' and '-'";
}

/* Fills in the record's topic. Returns NULL, or the reason why the name is invalid. */
static const char *fill_topic(struct kafka_record *out, const struct target_message *message)
{
    const char *text = message->setting->topic;
    struct buffer topic;
    const char *fault = NULL;
    buffer_init(&topic, TOPIC_BYTES_MAX);
    if (!template_fill(slice_of(text && *text ? text : TARGET_STANDARD_topic), message->job,
                       TEMPLATE_PLAIN, TOPIC_BYTES_MAX, &topic))
        fault = "kafka: the topic's name is longer than 249 bytes";
    else
        fault = topic_fault(buffer_slice(&topic));
    if (!fault)
        memcpy(out->topic, topic.at, topic.len);
    buffer_fini(&topic);
    return fault;
}

static void add_header(rd_kafka_headers_t *headers, struct slice name, struct slice value)
{
    (void)rd_kafka_header_add(headers, name.at, (ssize_t)name.len, value.len ? value.at : "",
                              (ssize_t)value.len);
}

/* Adds the meta of a pushed job. A meta named content-type becomes meta-content-type; tarry's own are
 * not sent. */
static void add_meta(rd_kafka_headers_t *headers, const struct job *job)
{
    struct slice name, value;
    for (size_t at = 0; target_meta_next(job->meta, &at, &name, &value);) {
        add_header(headers, slice_is(name, "content-type") ? slice_of("meta-content-type") : name,
                   value);
    }
}

/* Returns true for a header of a record from Kafka that is replaced. */
static bool is_replaced(struct slice name, void *ctx)
{
    static const char *const own[] = {TARGET_KAFKA_HEADER_TOPIC, TARGET_KAFKA_HEADER_ID,
                                      TARGET_KAFKA_HEADER_ATTEMPT, TARGET_KAFKA_HEADER_DUE_AT};
    static const size_t prefix = sizeof TARGET_KAFKA_EVENT_PREFIX - 1;
    const struct target_message *message = ctx;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (slice_is(name, own[i]))
            return true;
    if (slice_is(name, JOB_META_TRACEPARENT) || slice_is(name, JOB_META_TRACESTATE))
        return job_meta_find(message->job->meta, slice_of(JOB_META_TRACEPARENT)).at;
    return message->attributes.len > 0 && name.len >= prefix &&
           memcmp(name.at, TARGET_KAFKA_EVENT_PREFIX, prefix) == 0;
}

/* Adds the headers of a record from Kafka with the trace context of the job, and sets its key and
 * whether it has a body. Returns false if they are malformed. */
static bool restore(struct kafka_record *record, const struct target_message *message,
                    struct slice encoded)
{
    const struct job *job = message->job;
    struct kafka_record_parts parts;
    if (!kafka_record_decode(encoded, &parts, record->headers, is_replaced,
                             (void *)(uintptr_t)message))
        return false;
    static const char *const trace[] = {JOB_META_TRACEPARENT, JOB_META_TRACESTATE};
    for (size_t i = 0; i < sizeof trace / sizeof trace[0]; i++) {
        struct slice value = job_meta_find(job->meta, slice_of(trace[i]));
        if (value.at)
            add_header(record->headers, slice_of(trace[i]), value);
    }
    record->has_key = parts.key.at;
    record->has_body = parts.has_body || job->body.len > 0;
    buffer_append_slice(&record->key, parts.key);
    return !record->key.failed;
}

/* Adds tarry-topic, tarry-id, tarry-attempt, tarry-due-at, and those of an event. */
static void add_own_headers(rd_kafka_headers_t *headers, const struct target_message *message)
{
    const struct job *job = message->job;
    struct slice name, value;
    char due[TIMESTAMP_BYTES], attempt[16];
    int len = snprintf(attempt, sizeof attempt, "%u", (unsigned)job->attempt);
    timestamp_write(due, job->due_ms);
    add_header(headers, slice_of(TARGET_KAFKA_HEADER_TOPIC), job->topic);
    add_header(headers, slice_of(TARGET_KAFKA_HEADER_ID), job->id);
    add_header(headers, slice_of(TARGET_KAFKA_HEADER_ATTEMPT), slice_make(attempt, (size_t)len));
    add_header(headers, slice_of(TARGET_KAFKA_HEADER_DUE_AT), slice_make(due, sizeof due));
    for (size_t at = 0; job_meta_next(message->attributes, &at, &name, &value);)
        add_header(headers, name, value);
}

/* Fills in key and headers of a pushed job. Returns NULL, or the reason why it can never be sent. */
static const char *fill_pushed(struct kafka_record *out, const struct target_message *message)
{
    const struct job *job = message->job;
    const char *key = message->setting->key;
    add_header(out->headers, slice_of("content-type"),
               job->content_type.len ? job->content_type : slice_of("application/octet-stream"));
    add_own_headers(out->headers, message);
    add_meta(out->headers, job);
    out->has_body = true;
    return template_fill(slice_of(key ? key : TARGET_STANDARD_key), job, TEMPLATE_PLAIN,
                         KEY_BYTES_MAX, &out->key)
               ? NULL
               : "kafka: the key is longer than 1024 bytes";
}

/* Fills in key and headers. Returns NULL, or the reason why the message can never be sent. */
static const char *fill_headers(struct kafka_record *out, const struct target_message *message)
{
    struct buffer encoded;
    bool is_restored;
    buffer_init(&encoded, JOB_META_BYTES_MAX);
    bool good =
        target_parts_join(message->job->meta, TARGET_KAFKA_META_RECORD, &encoded, &is_restored);
    if (good && is_restored) {
        add_own_headers(out->headers, message);
        good = restore(out, message, buffer_slice(&encoded));
    }
    buffer_fini(&encoded);
    if (!good)
        return "kafka: the key and the headers in the job's meta are malformed";
    return is_restored ? NULL : fill_pushed(out, message);
}

/* Fills in a record. Returns NULL, or the reason why the message can never be sent; call
 * kafka_record_fini in both cases. */
static const char *kafka_record_fill(struct kafka_record *out, const struct target_message *message)
{
    memset(out, 0, sizeof *out);
    buffer_init(&out->key, JOB_META_BYTES_MAX);
    out->headers = rd_kafka_headers_new(HEADERS_EXPECTED); /* never NULL */
    const char *fault = fill_topic(out, message);
    return fault ? fault : fill_headers(out, message);
}

static void kafka_record_fini(struct kafka_record *record)
{
    buffer_fini(&record->key);
    if (record->headers)
        rd_kafka_headers_destroy(record->headers);
}

/* ---- the producer's end ---- */

/* Retires the producer. Messages that librdkafka has not returned by now may have arrived. */
static void retire(struct kafka *kafka)
{
    outbox_lose_sent(&kafka->outbox, kafka->why);
    outbox_return_all(&kafka->outbox);
    kafka->retired++;
    kafka_producer_retire(kafka->producer);
    kafka->producer = NULL;
    kafka->give_up_ms = INT64_MAX;
}

static bool is_giving_up(const struct kafka *kafka)
{
    return kafka->give_up_ms != INT64_MAX;
}

/* Gives up the producer: it returns all messages shortly and is then retired. The actual reason may
 * follow immediately after the first report. */
static void give_up(struct kafka *kafka, const char *why)
{
    if (!kafka->producer)
        return;
    (void)snprintf(kafka->why, sizeof kafka->why, "kafka: %.200s", why);
    if (is_giving_up(kafka))
        return;
    kafka->give_up_ms = clock_inner_ms() + GIVE_UP_MS;
    kafka_producer_purge(kafka->producer);
    outbox_call_at_iteration_end(&kafka->outbox);
    outbox_wake_at(&kafka->outbox, kafka->give_up_ms);
}

/* Handles the loss of all brokers: a producer that never delivered is given up; one that did
 * reconnects on its own. */
static void on_trouble(void *ctx, bool is_fatal, const char *why)
{
    struct kafka *kafka = ctx;
    log_event(is_fatal ? LOG_WARN : LOG_INFO, "broker cannot be reached",
              LOG_TEXT("broker", kafka->place.at.origin), LOG_TEXT("why", why));
    /* It still knows which messages it had sent, and reconnects on its own. */
    if (!is_fatal && kafka->has_delivered)
        return;
    if (!is_giving_up(kafka))
        outbox_pause_longer(&kafka->pause, clock_inner_ms());
    give_up(kafka, why);
}

static bool is_idle(const struct kafka *kafka)
{
    return kafka->producer && !is_giving_up(kafka) && list_is_empty(&kafka->outbox.sent) &&
           list_is_empty(&kafka->outbox.held);
}

/* Retires a producer when its grace period has ended, or when it was idle for a minute. */
static void on_woken(void *ctx, int64_t now_ms)
{
    struct kafka *kafka = ctx;
    if (is_giving_up(kafka) && now_ms >= kafka->give_up_ms)
        retire(kafka);
    else if (is_giving_up(kafka))
        outbox_wake_at(&kafka->outbox, kafka->give_up_ms);
    if (is_idle(kafka) && now_ms >= kafka->idle_ms + IDLE_MS)
        retire(kafka);
    else if (is_idle(kafka))
        outbox_wake_at(&kafka->outbox, kafka->idle_ms + IDLE_MS);
}

/* Retires a producer that was given up when it has returned all messages; ends a closed target
 * after its last producer. */
static void on_iteration_end(void *ctx)
{
    struct kafka *kafka = ctx;
    if (is_giving_up(kafka) && list_is_empty(&kafka->outbox.sent))
        retire(kafka);
    if (is_idle(kafka)) {
        kafka->idle_ms = clock_inner_ms();
        outbox_wake_at(&kafka->outbox, kafka->idle_ms + IDLE_MS);
    }
    if (kafka->outbox.closed && !kafka->producer && !kafka->retired)
        outbox_gone(&kafka->outbox);
}

static void on_gone(void *ctx)
{
    struct kafka *kafka = ctx;
    kafka->retired--;
    outbox_call_at_iteration_end(&kafka->outbox);
}

/* ---- the end of a message ---- */

static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct kafka *kafka = ctx;
    char error[TARGET_ERROR_BYTES];
    (void)snprintf(error, sizeof error, "kafka: timed out after %lld ms",
                   (long long)message->timeout_ms);
    if (kafka->producer)
        kafka_producer_report_refusal(kafka->producer, message, error);
    outbox_lose(&kafka->outbox, message, error);
}

static void on_explain(void *ctx, const struct outbox_message *message)
{
    (void)ctx;
    buffer_append_text(message->explained,
                       message->report.outcome == TARGET_DONE ? "all replicas in sync stored it\n"
                       : message->report.outcome == TARGET_UNSENT ? "nothing was sent\n"
                                                                  : "it was not confirmed\n");
}

/* Handles a message that librdkafka returned: reports it unless it had timed out before. */
static void on_delivered(void *ctx, struct outbox_message *message,
                         const struct target_report *report)
{
    struct kafka *kafka = ctx;
    struct target_report what = *report;
    if (message->stage == OUTBOX_SENT) {
        if (what.outcome == TARGET_DONE) {
            kafka->has_delivered = true;
            kafka->pause.failures = 0;
        } else if (is_giving_up(kafka)) {
            memcpy(what.error, kafka->why, sizeof what.error);
        }
        outbox_settle(&kafka->outbox, message, &what);
    }
    outbox_return(&kafka->outbox, message);
}

/* ---- sending ---- */

/* Returns NULL if there is a producer, otherwise the reason why not. */
static const char *find_producer(struct kafka *kafka)
{
    static const struct kafka_producer_events events = {
        .delivered = on_delivered, .trouble = on_trouble, .gone = on_gone};
    char why[TARGET_ERROR_BYTES];
    if (is_giving_up(kafka) || (!kafka->producer && clock_inner_ms() < kafka->pause.until_ms))
        return kafka->why;
    if (kafka->producer)
        return NULL;
    kafka->has_delivered = false;
    kafka->producer = kafka_producer_new(kafka->outbox.env, &kafka->place, &events, kafka, why);
    if (kafka->producer)
        return NULL;
    memcpy(kafka->why, why, sizeof kafka->why);
    outbox_pause_longer(&kafka->pause, clock_inner_ms());
    return kafka->why;
}

/* Passes a message to librdkafka, which holds it until on_delivered. */
static void produce(struct kafka *kafka, struct outbox_message *message,
                    const struct target_message *from, struct kafka_record *record)
{
    struct target_report report;
    const struct job *job = from->job;
    struct slice key = buffer_slice(&record->key), body = job->body;
    if (message->explained)
        buffer_append_format(message->explained, "topic '%s', key '%.*s', %zu bytes\n",
                             record->topic, (int)key.len, key.at, body.len);
    if (!key.len)
        key = record->has_key ? slice_of("") : (struct slice){0};
    if (!body.len)
        body = record->has_body ? slice_of("") : (struct slice){0};
    rd_kafka_headers_t *headers = record->headers;
    record->headers = NULL;
    rd_kafka_resp_err_t error =
        kafka_producer_send(kafka->producer, message, record->topic, key, body, headers, &report);
    if (!error) {
        message->is_held = true;
        outbox_mark_sent(&kafka->outbox, message);
        return;
    }
    outbox_settle(&kafka->outbox, message, &report);
    if (error == RD_KAFKA_RESP_ERR__FATAL)
        give_up(kafka, kafka_error_words(error));
}

static void add_message(struct kafka *kafka, const struct target_message *from)
{
    struct kafka_record record;
    struct outbox_message *message = calloc(1, sizeof *message);
    /* only a few hundred bytes; without them the failure could not be reported either */
    assert(message);
    outbox_add(&kafka->outbox, message, from, GRACE_MS);
    const char *fault = kafka_record_fill(&record, from), *away = NULL;
    if (fault)
        outbox_settle_as(&kafka->outbox, message, TARGET_REFUSED, false, fault);
    else if ((away = find_producer(kafka)))
        outbox_lose(&kafka->outbox, message, away);
    else
        produce(kafka, message, from, &record);
    kafka_record_fini(&record);
}

static void kafka_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct kafka *kafka = (struct kafka *)target;
    for (size_t i = 0; i < count; i++)
        add_message(kafka, &messages[i]);
}

/* ---- life ---- */

static bool kafka_check(const struct target_setting *setting, struct slice to,
                        char error[TARGET_ERROR_BYTES])
{
    struct kafka_place place;
    return kafka_place_parse(to, &place, NULL, error) &&
           (!setting || template_check_name(setting->topic, "topic", topic_fault, error)) &&
           (!setting || !setting->key || template_check(slice_of(setting->key), error));
}

static const struct outbox_kind outbox_kind = {.overdue = on_overdue,
                                               .explain = on_explain,
                                               .woken = on_woken,
                                               .iteration_end = on_iteration_end};

static struct target *kafka_open(const struct target_env *env, const struct target_setting *setting,
                                 struct slice to)
{
    char error[TARGET_ERROR_BYTES];
    struct kafka *kafka = calloc(1, sizeof *kafka);
    (void)setting;
    if (!kafka || !kafka_place_parse(to, &kafka->place, NULL, error) ||
        !outbox_init(&kafka->outbox, env, &outbox_kind, kafka)) {
        free(kafka);
        return NULL;
    }
    kafka->target.ops = &target_kafka;
    kafka->give_up_ms = INT64_MAX;
    return &kafka->target;
}

static void kafka_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct kafka *kafka = (struct kafka *)target;
    outbox_close(&kafka->outbox, closed, ctx);
    give_up(kafka, "abandoned: the server stops sending there");
}

const struct target_ops target_kafka = {.schemes = target_kafka_schemes,
                                        .event = {.prefix = TARGET_KAFKA_EVENT_PREFIX},
                                        .check = kafka_check,
                                        .open = kafka_open,
                                        .send = kafka_send,
                                        .close = kafka_close};
