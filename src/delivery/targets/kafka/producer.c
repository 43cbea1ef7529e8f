#include "targets/kafka/producer.h"

#include "base/clock.h"
#include "net/activity.h"
#include "net/thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    EVENTS_PER_STEP = 256,
    REFUSED_MS = 5000 /* time within which librdkafka retries a broker */
};

/* ---- meaning of errors ---- */

/*
 * Meaning of errors. Errors not listed mean failed, and the cluster is at fault. Missing topics and
 * rights are FAILED, because they may still be created or granted; the number of attempts is
 * limited.
 */
static const struct error_meaning {
    rd_kafka_resp_err_t error;
    enum target_outcome outcome;
    bool is_ailing;
    const char *words;
} rows[] = {
    /* errors of the message: it could never be accepted */
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, TARGET_REFUSED, false, "too large for the broker"},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, TARGET_REFUSED, false, "too large for the broker"},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, TARGET_REFUSED, false, "too large for the broker"},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, TARGET_REFUSED, false, "the topic's name is not allowed"},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, TARGET_REFUSED, false, "the broker refused the record"},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, TARGET_REFUSED, false, "rejected by the broker's policy"},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, TARGET_REFUSED, false, "the topic's name is not allowed"},
    /* errors of the topic: they may be fixed */
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, TARGET_FAILED, false, "no such topic"},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, TARGET_FAILED, false, "no such topic"},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, TARGET_FAILED, false, "no such topic"},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, TARGET_FAILED, false,
     "not allowed to write to the topic"},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, TARGET_FAILED, true,
     "not allowed to write to the cluster"},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, TARGET_FAILED, true, "too few replicas in sync"},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, TARGET_FAILED, true,
     "too few replicas in sync"},
    /* errors of the connection */
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, TARGET_FAILED, true, "timed out"},
    {RD_KAFKA_RESP_ERR__TIMED_OUT, TARGET_FAILED, true, "timed out"},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, TARGET_UNSENT, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, TARGET_FAILED, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__TRANSPORT, TARGET_FAILED, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, TARGET_FAILED, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__RESOLVE, TARGET_FAILED, true, "a broker's name could not be looked up"},
    {RD_KAFKA_RESP_ERR__SSL, TARGET_FAILED, true, "tls failed"},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, TARGET_FAILED, true, "user or password refused"},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, TARGET_FAILED, true, "user or password refused"},
    {RD_KAFKA_RESP_ERR__QUEUE_FULL, TARGET_UNSENT, false, "too many messages wait for the cluster"},
    {RD_KAFKA_RESP_ERR__FATAL, TARGET_FAILED, true, "the producer must be restarted"},
};

static const struct error_meaning *find_meaning(rd_kafka_resp_err_t error)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].error == error)
            return &rows[i];
    return NULL;
}

const char *kafka_error_words(rd_kafka_resp_err_t error)
{
    const struct error_meaning *row = find_meaning(error);
    return row ? row->words : rd_kafka_err2str(error);
}

static bool is_of_size(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
           error == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE ||
           error == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE;
}

static bool is_of_the_way(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT || error == RD_KAFKA_RESP_ERR__TIMED_OUT ||
           error == RD_KAFKA_RESP_ERR__TRANSPORT || error == RD_KAFKA_RESP_ERR__FATAL;
}

void kafka_error_report(rd_kafka_resp_err_t error, rd_kafka_msg_status_t status, size_t bytes,
                        int64_t timeout_ms, struct target_report *out)
{
    const struct error_meaning *row = find_meaning(error);
    *out = (struct target_report){.outcome = TARGET_DONE, .retry_after_ms = -1};
    if (!error || status == RD_KAFKA_MSG_STATUS_PERSISTED)
        return;
    out->outcome = row ? row->outcome : TARGET_FAILED;
    out->is_ailing = row ? row->is_ailing : true;
    if (is_of_size(error) && bytes < KAFKA_BATCH_BYTES_MAX)
        out->outcome = TARGET_FAILED;
    if (is_of_the_way(error) && status == RD_KAFKA_MSG_STATUS_NOT_PERSISTED)
        out->outcome = TARGET_UNSENT;
    /* The broker may have stored a message that was purged while it waited for a retry. */
    if (out->outcome == TARGET_UNSENT && status == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED)
        out->outcome = TARGET_FAILED;
    if (error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)
        (void)snprintf(out->error, sizeof out->error, "kafka: timed out after %" PRId64 " ms",
                       timeout_ms);
    else
        (void)snprintf(out->error, sizeof out->error, "kafka: %s", kafka_error_words(error));
}

/* ---- the producer ---- */

struct kafka_producer {
    struct letter letter; /* first; returns from the thread that destroys the producer */
    struct kafka_way way;
    const struct target_env *env;
    struct kafka_producer_events events;
    void *ctx;
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t *topic; /* the last topic used */
    int64_t topic_timeout_ms;
    int fd; /* an eventfd that is signalled when the queue has events */
    uv_poll_t poll;
    pthread_t thread;
    bool is_retired, has_thread;
    bool are_down;                  /* all brokers are down, since the last delivery */
    rd_kafka_resp_err_t last_error; /* of a connection */
};

/* ---- configuration ---- */

/* Sets the options. The broker limits the size of messages, so librdkafka does not. Missing topics
 * are reported after two seconds instead of thirty. */
static bool set_options(rd_kafka_conf_t *conf, char *error)
{
    static const struct kafka_option options[] = {
        {"enable.idempotence", "true"},          {"linger.ms", "1"},
        {"partitioner", "murmur2_random"},       {"message.max.bytes", "300000000"},
        {"queue.buffering.max.kbytes", "65536"}, {"topic.metadata.propagation.max.ms", "2000"},
    };
    char batch[24];
    (void)snprintf(batch, sizeof batch, "%d", KAFKA_BATCH_BYTES_MAX);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (!kafka_option_set(conf, options[i].name, options[i].value, error))
            return false;
    return kafka_option_set(conf, "batch.size", batch, error);
}

static rd_kafka_conf_t *make_conf(struct kafka_producer *producer, const struct kafka_place *place,
                                  char *error)
{
    rd_kafka_conf_t *conf = kafka_way_conf(&producer->way, place, error);
    if (!conf)
        return NULL;
    if (!set_options(conf, error)) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    return conf;
}

/* ---- events ---- */

void kafka_producer_report_refusal(struct kafka_producer *producer,
                                   const struct outbox_message *message,
                                   char error[TARGET_ERROR_BYTES])
{
    char why[GUARD_ERROR_BYTES];
    if (kafka_way_refusal(&producer->way, message->added_ms - REFUSED_MS, why))
        (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: %.200s", why);
}

static void report_delivered(struct kafka_producer *producer, rd_kafka_event_t *event)
{
    const rd_kafka_message_t *delivered;
    while (!producer->is_retired && (delivered = rd_kafka_event_message_next(event))) {
        struct outbox_message *message = delivered->_private;
        rd_kafka_msg_status_t status = rd_kafka_message_status(delivered);
        struct target_report report;
        producer->are_down = producer->are_down && delivered->err;
        kafka_error_report(delivered->err, status, delivered->len + delivered->key_len,
                           message->timeout_ms, &report);
        if (delivered->err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT &&
            status == RD_KAFKA_MSG_STATUS_NOT_PERSISTED)
            kafka_producer_report_refusal(producer, message, report.error);
        producer->events.delivered(producer->ctx, message, &report);
    }
}

/* Returns true for errors of the login. A producer keeps its initial login, so after such an error
 * it is useless, whatever it delivered before. The next one reads the policy file again. */
static bool is_of_the_login(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__AUTHENTICATION || error == RD_KAFKA_RESP_ERR__SSL ||
           error == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
}

/* Returns the error of an event. A failed handshake is sometimes reported as an ordinary loss of a
 * connection. */
static rd_kafka_resp_err_t error_of(rd_kafka_event_t *event)
{
    rd_kafka_resp_err_t error = rd_kafka_event_error(event);
    const char *text = rd_kafka_event_error_string(event);
    bool is_tls = error == RD_KAFKA_RESP_ERR__TRANSPORT && text && strstr(text, "SSL_HANDSHAKE");
    return is_tls ? RD_KAFKA_RESP_ERR__SSL : error;
}

/* Reports a problem. That all brokers are down is reported once until one is up again. A login
 * error of a broker that came back is reported separately. */
static void report_trouble(struct kafka_producer *producer, rd_kafka_event_t *event)
{
    char why[GUARD_ERROR_BYTES];
    rd_kafka_resp_err_t error = error_of(event);
    bool is_fatal = error == RD_KAFKA_RESP_ERR__FATAL;
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        producer->are_down = true;
    else if (!is_fatal)
        producer->last_error = error;
    if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && !is_fatal &&
        !(producer->are_down && is_of_the_login(error)))
        return;
    if (!is_fatal && producer->last_error)
        error = producer->last_error;
    producer->last_error = 0;
    if (!kafka_way_refusal(&producer->way, 0, why))
        (void)snprintf(why, sizeof why, "%s", kafka_error_words(error));
    producer->events.trouble(producer->ctx, is_fatal || is_of_the_login(error), why);
}

static void take_event(struct kafka_producer *producer, rd_kafka_event_t *event)
{
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
        report_delivered(producer, event);
    else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
        report_trouble(producer, event);
    rd_kafka_event_destroy(event);
}

/* Handles the events. The descriptor is signalled when the queue was empty before, so the queue is
 * either emptied here or the descriptor is signalled again. */
static void on_ring(uv_poll_t *poll, int status, int events)
{
    struct kafka_producer *producer = poll->data;
    rd_kafka_event_t *event = NULL;
    uint64_t rings = 1;
    (void)status;
    (void)events;
    activity_begin("deliveries");
    if (read(producer->fd, &rings, sizeof rings) < 0)
        return;
    for (int i = 0; i < EVENTS_PER_STEP && !producer->is_retired; i++) {
        if (!(event = rd_kafka_queue_poll(producer->queue, 0)))
            return;
        take_event(producer, event);
    }
    rings = 1;
    if (!producer->is_retired && write(producer->fd, &rings, sizeof rings) < 0)
        return; /* it is already signalled */
}

/* ---- sending ---- */

/* Selects a topic handle. The message timeout is a property of the topic, set when it is first
 * used. */
static bool find_topic(struct kafka_producer *producer, const char *name, int64_t timeout_ms)
{
    char text[24];
    if (producer->topic && producer->topic_timeout_ms == timeout_ms &&
        strcmp(rd_kafka_topic_name(producer->topic), name) == 0)
        return true;
    rd_kafka_topic_conf_t *conf = rd_kafka_default_topic_conf_dup(producer->kafka);
    (void)snprintf(text, sizeof text, "%lld", (long long)timeout_ms);
    (void)rd_kafka_topic_conf_set(conf, "message.timeout.ms", text, NULL, 0);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer->kafka, name, conf);
    if (!topic) {
        rd_kafka_topic_conf_destroy(conf);
        return false;
    }
    if (producer->topic)
        rd_kafka_topic_destroy(producer->topic);
    producer->topic = topic;
    producer->topic_timeout_ms = timeout_ms;
    return true;
}

rd_kafka_resp_err_t kafka_producer_send(struct kafka_producer *producer,
                                        struct outbox_message *message, const char *topic,
                                        struct slice key, struct slice body,
                                        rd_kafka_headers_t *headers, struct target_report *report)
{
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__INVALID_ARG;
    kafka_way_evaluate(&producer->way);
    if (find_topic(producer, topic, message->timeout_ms))
        error = rd_kafka_producev(producer->kafka, RD_KAFKA_V_RKT(producer->topic),
                                  RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                  RD_KAFKA_V_VALUE((void *)(uintptr_t)body.at, body.len),
                                  RD_KAFKA_V_KEY(key.at, key.len), RD_KAFKA_V_HEADERS(headers),
                                  RD_KAFKA_V_OPAQUE(message), RD_KAFKA_V_END);
    if (!error)
        return error;
    rd_kafka_headers_destroy(headers);
    kafka_error_report(error, RD_KAFKA_MSG_STATUS_NOT_PERSISTED, body.len + key.len,
                       message->timeout_ms, report);
    return error;
}

void kafka_producer_purge(struct kafka_producer *producer)
{
    (void)rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                              RD_KAFKA_PURGE_F_NON_BLOCKING);
}

/* ---- life ---- */

/* Starts librdkafka and watches the descriptor that it signals. */
static bool producer_start(struct kafka_producer *producer, rd_kafka_conf_t *conf, char *error)
{
    static const uint64_t ring = 1;
    char why[128];
    producer->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (producer->fd < 0) {
        rd_kafka_conf_destroy(conf);
        (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: no file descriptor is left");
        return false;
    }
    producer->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!producer->kafka) {
        rd_kafka_conf_destroy(conf);
        close(producer->fd);
        (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: %s", why);
        return false;
    }
    producer->queue = rd_kafka_queue_get_main(producer->kafka);
    (void)uv_poll_init(reactor_loop(producer->env->reactor), &producer->poll, producer->fd);
    producer->poll.data = producer;
    (void)uv_poll_start(&producer->poll, UV_READABLE, on_ring);
    rd_kafka_queue_io_event_enable(producer->queue, producer->fd, &ring, sizeof ring);
    /* Events may have occurred before; a non-empty queue is not signalled again. */
    if (write(producer->fd, &ring, sizeof ring) < 0)
        assert(errno == EAGAIN);
    return true;
}

struct kafka_producer *kafka_producer_new(const struct target_env *env,
                                          const struct kafka_place *place,
                                          const struct kafka_producer_events *events, void *ctx,
                                          char error[TARGET_ERROR_BYTES])
{
    struct kafka_producer *producer = calloc(1, sizeof *producer);
    (void)snprintf(error, TARGET_ERROR_BYTES, "out of memory");
    if (!producer)
        return NULL;
    producer->env = env;
    producer->events = *events;
    producer->ctx = ctx;
    kafka_way_init(&producer->way, env->guard);
    rd_kafka_conf_t *conf = make_conf(producer, place, error);
    if (conf && producer_start(producer, conf, error))
        return producer;
    kafka_way_fini(&producer->way);
    free(producer);
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct kafka_producer *producer = handle->data;
    void (*gone)(void *) = producer->events.gone;
    void *ctx = producer->ctx;
    close(producer->fd);
    kafka_way_fini(&producer->way);
    free(producer);
    gone(ctx);
}

static void come_home(struct letter *letter)
{
    struct kafka_producer *producer = (struct kafka_producer *)(void *)letter;
    if (producer->has_thread)
        thread_join(producer->thread);
    uv_close((uv_handle_t *)&producer->poll, on_closed);
}

/* Waits for librdkafka's threads, one of which may be looking up a name. */
static void run_end(void *ctx)
{
    struct kafka_producer *producer = ctx;
    if (producer->topic)
        rd_kafka_topic_destroy(producer->topic);
    rd_kafka_queue_io_event_enable(producer->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(producer->queue);
    rd_kafka_destroy(producer->kafka);
    reactor_post(producer->env->reactor, &producer->letter);
}

void kafka_producer_retire(struct kafka_producer *producer)
{
    producer->is_retired = true;
    (void)uv_poll_stop(&producer->poll);
    kafka_producer_purge(producer);
    producer->letter.run = come_home;
    producer->has_thread = true; /* set before it runs, because it is posted back on its own */
    if (thread_start(&producer->thread, "kafka-end", run_end, producer) == 0)
        return;
    producer->has_thread = false;
    run_end(producer); /* no thread is available: the loop waits in this case */
}
