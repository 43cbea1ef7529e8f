/*
 * target_kafka: a Kafka cluster, by librdkafka.
 *
 * The producer is idempotent: what librdkafka itself sends again is stored once. A job that came
 * back FAILED is a new message; where its first one had arrived unheard, it is there twice. A
 * producer that cannot begin, broke for good or has nothing to do is given up; the next message
 * opens another.
 */
#include "base/clock.h"
#include "base/log.h"
#include "targets/kafka_error.h"
#include "targets/kafka_message.h"
#include "targets/kafka_place.h"
#include "targets/kafka_producer.h"
#include "targets/target.h"
#include "targets/template.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    GRACE_MS = 2000,     /* librdkafka looks once a second at what has timed out */
    IDLE_MS = 60 * 1000, /* its threads wake up even if there is nothing to do */
    GIVE_UP_MS = 1000,   /* for librdkafka to hand back what is under way */
    REFUSED_MS = 5000,   /* librdkafka tries a broker again within so long */
    PAUSE_MS = 100,      /* after the first failure, doubled with each */
    PAUSE_MS_MAX = 5 * 1000
};

/* One message. Its list: sent (librdkafka has it), settled (waits to be reported), overdue (is
 * reported, librdkafka has it still). */
struct sending {
    struct list list;
    uint64_t tag;
    int64_t until_ms, timeout_ms;
    size_t bytes;
    bool is_settled, is_reported;
    bool is_returned; /* librdkafka has it no more */
    struct buffer *explained;
    struct target_report report;
};

struct kafka {
    struct target target; /* the first */
    const struct target_env *env;
    struct kafka_place place;
    struct kafka_producer *producer; /* NULL: none */
    size_t retired;                  /* producers on their way out */
    struct list sent, overdue, settled;
    struct deadline *deadline;
    int64_t deadline_ms;
    int64_t idle_ms;    /* since when nothing is under way */
    int64_t give_up_ms; /* the producer goes then, whatever is under way; INT64_MAX: it stays */
    int64_t retry_at_ms;
    uint32_t failures;            /* in a row */
    bool has_delivered;           /* this producer */
    char why[TARGET_ERROR_BYTES]; /* the producer is given up */
    struct turn_end_call turn_end;
    void (*closed)(void *ctx); /* set: it is being closed */
    void *closed_ctx;
};

static void watch(struct kafka *kafka, int64_t at_ms)
{
    if (at_ms >= kafka->deadline_ms)
        return;
    kafka->deadline_ms = at_ms;
    deadline_set(kafka->deadline, at_ms);
}

/* ---- the end of a message ---- */

static void settle(struct kafka *kafka, struct sending *sending, const struct target_report *report)
{
    sending->report = *report;
    sending->is_settled = true;
    list_remove(&sending->list);
    list_add_last(&kafka->settled, &sending->list);
    reactor_once_at_turn_end(kafka->env->reactor, &kafka->turn_end);
}

static void settle_as(struct kafka *kafka, struct sending *sending, enum target_outcome outcome,
                      bool is_ailing, const char *error)
{
    struct target_report report = {
        .outcome = outcome, .is_ailing = is_ailing, .retry_after_ms = -1};
    (void)snprintf(report.error, sizeof report.error, "%s", error);
    settle(kafka, sending, &report);
}

static void explain(const struct sending *sending)
{
    if (!sending->explained)
        return;
    buffer_append_text(sending->explained,
                       sending->report.outcome == TARGET_DONE     ? "all replicas in sync have it\n"
                       : sending->report.outcome == TARGET_UNSENT ? "nothing was sent\n"
                                                                  : "it was not confirmed\n");
}

static void report_settled(struct kafka *kafka)
{
    while (!list_is_empty(&kafka->settled)) {
        struct sending *sending = list_entry(kafka->settled.next, struct sending, list);
        struct target_report report = sending->report;
        uint64_t tag = sending->tag;
        explain(sending);
        list_remove(&sending->list);
        sending->is_reported = true;
        if (sending->is_returned)
            free(sending);
        else
            list_add_last(&kafka->overdue, &sending->list);
        kafka->env->reported(kafka->env->owner, tag, &report);
    }
}

static void free_overdue(struct kafka *kafka)
{
    while (!list_is_empty(&kafka->overdue)) {
        struct sending *sending = list_entry(kafka->overdue.next, struct sending, list);
        list_remove(&sending->list);
        free(sending);
    }
}

/* ---- the producer's end ---- */

static void pause_a_while(struct kafka *kafka)
{
    int64_t pause_ms = PAUSE_MS;
    for (uint32_t i = 0; i < kafka->failures && pause_ms < PAUSE_MS_MAX; i++)
        pause_ms *= 2;
    kafka->failures++;
    kafka->retry_at_ms = clock_inner_ms() + (pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX);
}

/* What librdkafka has not handed back by now may have arrived. */
static void retire(struct kafka *kafka)
{
    while (!list_is_empty(&kafka->sent))
        settle_as(kafka, list_entry(kafka->sent.next, struct sending, list), TARGET_FAILED, true,
                  kafka->why);
    for (struct list *at = kafka->settled.next; at != &kafka->settled; at = at->next)
        list_entry(at, struct sending, list)->is_returned = true;
    free_overdue(kafka);
    kafka->retired++;
    kafka_producer_retire(kafka->producer);
    kafka->producer = NULL;
    kafka->give_up_ms = INT64_MAX;
}

static bool is_giving_up(const struct kafka *kafka)
{
    return kafka->give_up_ms != INT64_MAX;
}

/* In the next moments the producer hands back everything, and is let go. The reason may come right
 * behind the news. */
static void give_up(struct kafka *kafka, const char *why)
{
    if (!kafka->producer)
        return;
    (void)snprintf(kafka->why, sizeof kafka->why, "kafka: %.200s", why);
    if (is_giving_up(kafka))
        return;
    kafka->give_up_ms = clock_inner_ms() + GIVE_UP_MS;
    kafka_producer_purge(kafka->producer);
    reactor_once_at_turn_end(kafka->env->reactor, &kafka->turn_end);
    watch(kafka, kafka->give_up_ms);
}

static void on_trouble(void *ctx, bool is_fatal, const char *why)
{
    struct kafka *kafka = ctx;
    log_event(is_fatal ? LOG_WARN : LOG_INFO, "broker is away",
              LOG_TEXT("broker", kafka->place.origin), LOG_TEXT("why", why));
    /* One that has been of use knows what it had sent, and comes back by itself. */
    if (!is_fatal && kafka->has_delivered)
        return;
    if (!is_giving_up(kafka))
        pause_a_while(kafka);
    give_up(kafka, why);
}

/* A message for a broker that the guard refuses only runs out of time, as librdkafka sees it. */
static void tell_refusal(const struct kafka *kafka, const struct sending *sending, char *error)
{
    char why[GUARD_ERROR_BYTES];
    int64_t since_ms = sending->until_ms - sending->timeout_ms - GRACE_MS - REFUSED_MS;
    if (kafka->producer && kafka_producer_refusal(kafka->producer, since_ms, why))
        (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: %.200s", why);
}

static void on_delivered(void *ctx, void *opaque, rd_kafka_resp_err_t error,
                         rd_kafka_msg_status_t status)
{
    struct kafka *kafka = ctx;
    struct sending *sending = opaque;
    struct target_report report;
    sending->is_returned = true;
    if (sending->is_reported) {
        list_remove(&sending->list);
        free(sending);
        return;
    }
    if (sending->is_settled)
        return;
    kafka_error_report(error, status, sending->bytes, sending->timeout_ms, &report);
    if (error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT && status == RD_KAFKA_MSG_STATUS_NOT_PERSISTED)
        tell_refusal(kafka, sending, report.error);
    if (report.outcome == TARGET_DONE) {
        kafka->has_delivered = true;
        kafka->failures = 0;
    } else if (is_giving_up(kafka)) {
        (void)snprintf(report.error, sizeof report.error, "%s", kafka->why);
    }
    settle(kafka, sending, &report);
}

/* ---- time ---- */

static void time_out(struct kafka *kafka, int64_t now_ms)
{
    char error[TARGET_ERROR_BYTES];
    for (struct list *at = kafka->sent.next, *next; at != &kafka->sent; at = next) {
        struct sending *sending = list_entry(at, struct sending, list);
        next = at->next;
        if (sending->until_ms > now_ms) {
            watch(kafka, sending->until_ms);
            continue;
        }
        (void)snprintf(error, sizeof error, "kafka: timed out after %lld ms",
                       (long long)sending->timeout_ms);
        tell_refusal(kafka, sending, error);
        settle_as(kafka, sending, TARGET_FAILED, true, error);
    }
}

static bool is_idle(const struct kafka *kafka)
{
    return kafka->producer && !is_giving_up(kafka) && list_is_empty(&kafka->sent) &&
           list_is_empty(&kafka->overdue);
}

static void on_deadline(void *ctx)
{
    struct kafka *kafka = ctx;
    int64_t now_ms = clock_inner_ms();
    kafka->deadline_ms = INT64_MAX;
    time_out(kafka, now_ms);
    if (is_giving_up(kafka) && now_ms >= kafka->give_up_ms)
        retire(kafka);
    else if (is_giving_up(kafka))
        watch(kafka, kafka->give_up_ms);
    if (is_idle(kafka) && now_ms >= kafka->idle_ms + IDLE_MS)
        retire(kafka);
    else if (is_idle(kafka))
        watch(kafka, kafka->idle_ms + IDLE_MS);
    reactor_once_at_turn_end(kafka->env->reactor, &kafka->turn_end);
}

static void go(struct kafka *kafka)
{
    void (*closed)(void *) = kafka->closed;
    void *ctx = kafka->closed_ctx;
    deadline_free(kafka->deadline);
    free(kafka);
    closed(ctx);
}

static void on_turn_end(struct turn_end_call *call)
{
    struct kafka *kafka = list_entry(call, struct kafka, turn_end);
    /* Who acts on reports has had its call in this turn already. */
    reactor_turn_again(kafka->env->reactor);
    if (is_giving_up(kafka) && list_is_empty(&kafka->sent))
        retire(kafka);
    report_settled(kafka);
    if (is_idle(kafka)) {
        kafka->idle_ms = clock_inner_ms();
        watch(kafka, kafka->idle_ms + IDLE_MS);
    }
    if (kafka->closed && !kafka->producer && !kafka->retired && list_is_empty(&kafka->settled))
        go(kafka);
}

static void on_gone(void *ctx)
{
    struct kafka *kafka = ctx;
    kafka->retired--;
    reactor_once_at_turn_end(kafka->env->reactor, &kafka->turn_end);
}

/* ---- sending ---- */

/* NULL: there is a producer to send by; else why not. */
static const char *find_producer(struct kafka *kafka)
{
    static const struct kafka_producer_events events = {
        .delivered = on_delivered, .trouble = on_trouble, .gone = on_gone};
    char why[TARGET_ERROR_BYTES];
    if (is_giving_up(kafka) || (!kafka->producer && clock_inner_ms() < kafka->retry_at_ms))
        return kafka->why;
    if (kafka->producer)
        return NULL;
    kafka->has_delivered = false;
    kafka->producer = kafka_producer_new(kafka->env, &kafka->place, &events, kafka, why);
    if (kafka->producer)
        return NULL;
    memcpy(kafka->why, why, sizeof kafka->why);
    pause_a_while(kafka);
    return kafka->why;
}

static void produce(struct kafka *kafka, struct sending *sending,
                    const struct target_message *message, const struct kafka_message *filled)
{
    struct target_report report;
    const struct job *job = message->job;
    rd_kafka_headers_t *headers = kafka_message_headers(job);
    sending->bytes = job->body.len + filled->key.len;
    if (sending->explained)
        buffer_append_format(sending->explained, "topic '%s', key '%.*s', %zu bytes\n",
                             filled->topic, (int)filled->key.len, filled->key.at, job->body.len);
    rd_kafka_resp_err_t error =
        kafka_producer_send(kafka->producer, filled->topic, sending->timeout_ms,
                            buffer_slice(&filled->key), job->body, headers, sending);
    if (!error) {
        sending->is_returned = false;
        watch(kafka, sending->until_ms);
        return;
    }
    kafka_error_report(error, RD_KAFKA_MSG_STATUS_NOT_PERSISTED, sending->bytes,
                       sending->timeout_ms, &report);
    settle(kafka, sending, &report);
    if (error == RD_KAFKA_RESP_ERR__FATAL)
        give_up(kafka, kafka_error_words(error));
}

static void take(struct kafka *kafka, const struct target_message *message)
{
    struct kafka_message filled;
    struct sending *sending = calloc(1, sizeof *sending);
    assert(sending); /* some hundred bytes; without them nobody could be told of it either */
    sending->tag = message->tag;
    sending->explained = message->explained;
    sending->timeout_ms = message->setting->timeout_ms;
    sending->until_ms = clock_inner_ms() + sending->timeout_ms + GRACE_MS;
    sending->is_returned = true;
    list_add_last(&kafka->sent, &sending->list);
    const char *fault = kafka_message_fill(&filled, message), *away = NULL;
    if (fault)
        settle_as(kafka, sending, TARGET_REFUSED, false, fault);
    else if ((away = find_producer(kafka)))
        settle_as(kafka, sending, TARGET_UNSENT, true, away);
    else
        produce(kafka, sending, message, &filled);
    kafka_message_fini(&filled);
}

static void kafka_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct kafka *kafka = (struct kafka *)target;
    for (size_t i = 0; i < count; i++)
        take(kafka, &messages[i]);
}

/* ---- life ---- */

static bool kafka_check(const struct target_setting *setting, struct slice to,
                        char error[TARGET_ERROR_BYTES])
{
    struct kafka_place place;
    return kafka_place_parse(to, &place, error) &&
           (!setting || !setting->topic || template_check(slice_of(setting->topic), error)) &&
           (!setting || !setting->key || template_check(slice_of(setting->key), error));
}

static struct target *kafka_open(const struct target_env *env, const struct target_setting *setting,
                                 struct slice to)
{
    char error[TARGET_ERROR_BYTES];
    struct kafka *kafka = calloc(1, sizeof *kafka);
    (void)setting;
    if (!kafka || !kafka_place_parse(to, &kafka->place, error) ||
        !(kafka->deadline = deadline_new(env->reactor, on_deadline, kafka))) {
        free(kafka);
        return NULL;
    }
    kafka->target.ops = &target_kafka;
    kafka->env = env;
    list_init(&kafka->sent);
    list_init(&kafka->overdue);
    list_init(&kafka->settled);
    kafka->deadline_ms = kafka->give_up_ms = INT64_MAX;
    kafka->turn_end.run = on_turn_end;
    list_init(&kafka->turn_end.list);
    return &kafka->target;
}

static void kafka_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct kafka *kafka = (struct kafka *)target;
    kafka->closed = closed;
    kafka->closed_ctx = ctx;
    give_up(kafka, "given up: the server stops sending there");
    reactor_once_at_turn_end(kafka->env->reactor, &kafka->turn_end);
}

static const char *const schemes[] = {"kafka", "kafkas", NULL};

const struct target_ops target_kafka = {.schemes = schemes,
                                        .check = kafka_check,
                                        .open = kafka_open,
                                        .send = kafka_send,
                                        .close = kafka_close};
