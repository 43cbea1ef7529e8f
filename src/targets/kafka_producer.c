#include "targets/kafka_producer.h"

#include "base/log.h"
#include "net/thread.h"
#include "targets/kafka_error.h"
#include "targets/kafka_way.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS_A_TURN = 256 };

struct kafka_producer {
    struct letter letter; /* the first: comes home from the thread that ends it */
    struct kafka_way way;
    const struct target_env *env;
    struct kafka_producer_events events;
    void *ctx;
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t *topic; /* the last one used */
    int64_t topic_timeout_ms;
    int fd; /* an eventfd that rings when the queue has something */
    uv_poll_t poll;
    pthread_t thread;
    bool is_retired, has_thread;
    bool are_down;                  /* all brokers, since the last delivery */
    rd_kafka_resp_err_t last_error; /* of a connection */
};

/* ---- configuration ---- */

struct option {
    const char *name, *value;
};

static bool set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error)
{
    char why[160];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
        return true;
    (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: '%s' cannot be set", name);
    return false;
}

/* The broker says how long a message may be, so librdkafka does not. Topics that are not there are
 * reported after two seconds rather than thirty. */
static bool set_options(rd_kafka_conf_t *conf, char *error)
{
    static const struct option options[] = {
        {"client.id", "tarry"},
        {"enable.idempotence", "true"},
        {"linger.ms", "1"},
        {"partitioner", "murmur2_random"},
        {"message.max.bytes", "300000000"},
        {"queue.buffering.max.kbytes", "65536"},
        {"topic.metadata.propagation.max.ms", "2000"},
        {"reconnect.backoff.max.ms", "2000"},
        {"socket.connection.setup.timeout.ms", "10000"},
        {"socket.keepalive.enable", "true"},
        {"socket.nagle.disable", "true"},
        {"log_level", "4"},
    };
    char batch[24];
    (void)snprintf(batch, sizeof batch, "%d", KAFKA_BATCH_BYTES_MAX);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (!set(conf, options[i].name, options[i].value, error))
            return false;
    return set(conf, "batch.size", batch, error);
}

static bool set_security(rd_kafka_conf_t *conf, const struct target_env *env,
                         const struct kafka_place *place, char *error)
{
    struct guard_credential credential;
    char ca_file[GUARD_PATH_BYTES_MAX];
    bool has_login = guard_find_credential(env->guard, place->origin, &credential), good;
    const char *protocol = place->is_tls ? has_login ? "sasl_ssl" : "ssl"
                           : has_login   ? "sasl_plaintext"
                                         : "plaintext";
    good = set(conf, "security.protocol", protocol, error);
    if (has_login)
        good = good && set(conf, "sasl.mechanisms", "PLAIN", error) &&
               set(conf, "sasl.username", credential.user, error) &&
               set(conf, "sasl.password", credential.password, error);
    explicit_bzero(&credential, sizeof credential);
    if (place->is_tls && guard_ca_file(env->guard, ca_file))
        good = good && set(conf, "ssl.ca.location", ca_file, error);
    return good;
}

static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
    (void)kafka;
    (void)level;
    log_event(LOG_DEBUG, "librdkafka", LOG_TEXT("facility", facility), LOG_TEXT("text", text));
}

static rd_kafka_conf_t *make_conf(struct kafka_producer *producer, const struct kafka_place *place,
                                  char *error)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (!set_options(conf, error) || !set(conf, "bootstrap.servers", place->servers, error) ||
        !set_security(conf, producer->env, place, error)) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    kafka_way_guard(&producer->way, conf);
    return conf;
}

/* ---- what it tells ---- */

static void tell_delivered(struct kafka_producer *producer, rd_kafka_event_t *event)
{
    const rd_kafka_message_t *message;
    while (!producer->is_retired && (message = rd_kafka_event_message_next(event))) {
        producer->are_down = producer->are_down && message->err;
        producer->events.delivered(producer->ctx, message->_private, message->err,
                                   rd_kafka_message_status(message));
    }
}

/* A producer keeps the login it was made with: one that is refused is of no use any more, whatever
 * it delivered before; the next one reads the policy file's. */
static bool is_of_the_login(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__AUTHENTICATION || error == RD_KAFKA_RESP_ERR__SSL ||
           error == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
}

/* A handshake that fails is now and then told as any other loss of a connection. */
static rd_kafka_resp_err_t error_of(rd_kafka_event_t *event)
{
    rd_kafka_resp_err_t error = rd_kafka_event_error(event);
    const char *text = rd_kafka_event_error_string(event);
    bool is_tls = error == RD_KAFKA_RESP_ERR__TRANSPORT && text && strstr(text, "SSL_HANDSHAKE");
    return is_tls ? RD_KAFKA_RESP_ERR__SSL : error;
}

/* That all are down is told once, until one is up: what a broker that comes back has against the
 * login is told alone. */
static void tell_trouble(struct kafka_producer *producer, rd_kafka_event_t *event)
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

static void take(struct kafka_producer *producer, rd_kafka_event_t *event)
{
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
        tell_delivered(producer, event);
    else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
        tell_trouble(producer, event);
    rd_kafka_event_destroy(event);
}

/* The descriptor rings when the queue was empty before: it is emptied here, or rung again. */
static void on_ring(uv_poll_t *poll, int status, int events)
{
    struct kafka_producer *producer = poll->data;
    rd_kafka_event_t *event = NULL;
    uint64_t rings = 1;
    (void)status;
    (void)events;
    if (read(producer->fd, &rings, sizeof rings) < 0)
        return;
    for (int i = 0; i < EVENTS_A_TURN && !producer->is_retired; i++) {
        if (!(event = rd_kafka_queue_poll(producer->queue, 0)))
            return;
        take(producer, event);
    }
    rings = 1;
    if (!producer->is_retired && write(producer->fd, &rings, sizeof rings) < 0)
        return; /* it rings already */
}

/* ---- sending ---- */

/* The time of a topic's messages is told with the topic, the first time it is named. */
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

rd_kafka_resp_err_t kafka_producer_send(struct kafka_producer *producer, const char *topic,
                                        int64_t timeout_ms, struct slice key, struct slice body,
                                        rd_kafka_headers_t *headers, void *opaque)
{
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__INVALID_ARG;
    kafka_way_judge(&producer->way);
    if (find_topic(producer, topic, timeout_ms))
        error = rd_kafka_producev(producer->kafka, RD_KAFKA_V_RKT(producer->topic),
                                  RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                  RD_KAFKA_V_VALUE((void *)(uintptr_t)body.at, body.len),
                                  RD_KAFKA_V_KEY(key.at, key.len), RD_KAFKA_V_HEADERS(headers),
                                  RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_END);
    if (error)
        rd_kafka_headers_destroy(headers);
    return error;
}

bool kafka_producer_refusal(struct kafka_producer *producer, int64_t since_ms,
                            char out[GUARD_ERROR_BYTES])
{
    return kafka_way_refusal(&producer->way, since_ms, out);
}

void kafka_producer_purge(struct kafka_producer *producer)
{
    (void)rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                              RD_KAFKA_PURGE_F_NON_BLOCKING);
}

/* ---- life ---- */

static bool start(struct kafka_producer *producer, rd_kafka_conf_t *conf, char *error)
{
    static const uint64_t ring = 1;
    char why[128];
    producer->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (producer->fd < 0) {
        rd_kafka_conf_destroy(conf);
        (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: no descriptor is left");
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
    /* Something may have come before: a queue that is not empty does not ring. */
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
    if (conf && start(producer, conf, error))
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
    producer->has_thread = true; /* set before it runs: it comes home by itself */
    if (thread_start(&producer->thread, "kafka-end", run_end, producer) == 0)
        return;
    producer->has_thread = false;
    run_end(producer); /* no thread is left: the loop waits this once */
}
