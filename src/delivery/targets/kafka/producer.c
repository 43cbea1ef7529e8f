#include "targets/kafka/producer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "guard/resolve.h"
#include "net/thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_PER_STEP = 256,
    REFUSED_MS = 5000 /* time within which librdkafka retries a broker */
};

/* ---- address ---- */

bool kafka_place_parse(struct slice to, struct kafka_place *out, char *error)
{
    struct url url;
    struct buffer servers;
    if (!target_place_parse(to, target_kafka_schemes, &url, &out->at, error))
        return false;
    if (url.path.len > 1 || url.has_query)
        return error_text(error, TARGET_ERROR_BYTES,
                          "it has a path or a query, give the topic in 'topic', and write "
                          "kafka://host:9092,host:9092");
    buffer_init(&servers, sizeof out->servers - 1);
    for (size_t i = 0; i < url.host_count; i++) {
        if (i > 0)
            buffer_append_byte(&servers, ',');
        url_emit_host(&url.hosts[i], guard_port(&url, i), &servers);
    }
    bool good = !servers.failed;
    if (good)
        (void)snprintf(out->servers, sizeof out->servers, "%.*s", (int)servers.len, servers.at);
    buffer_fini(&servers);
    return good || error_text(error, TARGET_ERROR_BYTES, "out of memory");
}

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
    if (error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)
        (void)snprintf(out->error, sizeof out->error, "kafka: timed out after %" PRId64 " ms",
                       timeout_ms);
    else
        (void)snprintf(out->error, sizeof out->error, "kafka: %s", kafka_error_words(error));
}

/* ---- connections to the brokers ---- */

/* The guard between librdkafka and the network: it checks each name that librdkafka looks up, from
 * the URL or the cluster's own list, and each address it connects to. It is the opaque of a
 * producer, used by librdkafka's threads. */
struct kafka_way {
    struct guard *guard;
    pthread_mutex_t mutex;
    char why[GUARD_ERROR_BYTES]; /* description of the last refusal, or empty */
    int64_t refused_ms;          /* time of the refusal; inner clock */
    uint64_t policy;             /* the guard's generation when it allowed the open connections */
    struct kafka_connection *connections;
};

struct found_address {
    struct addrinfo info; /* the first */
    struct sockaddr_storage address;
};

struct kafka_connection { /* an open connection of librdkafka's threads */
    struct kafka_connection *next;
    int fd;
    char host[]; /* empty if unknown */
};

static void way_refuse(struct kafka_way *way, const char *why)
{
    pthread_mutex_lock(&way->mutex);
    (void)snprintf(way->why, sizeof way->why, "%s", why);
    way->refused_ms = clock_inner_ms();
    pthread_mutex_unlock(&way->mutex);
}

static bool way_refusal(struct kafka_way *way, int64_t since_ms, char out[GUARD_ERROR_BYTES])
{
    pthread_mutex_lock(&way->mutex);
    bool is_notified = way->why[0] && way->refused_ms >= since_ms;
    if (is_notified)
        memcpy(out, way->why, sizeof way->why);
    pthread_mutex_unlock(&way->mutex);
    return is_notified;
}

static void free_list(struct addrinfo *info)
{
    while (info) {
        struct addrinfo *next = info->ai_next;
        free(info);
        info = next;
    }
}

/* Converts resolved addresses into a list for librdkafka, which free_list frees. */
static struct addrinfo *make_list(const struct resolved *resolved, const struct addrinfo *hints)
{
    struct addrinfo *list = NULL;
    for (size_t i = resolved->count; i-- > 0;) {
        struct found_address *found = calloc(1, sizeof *found);
        if (!found) {
            free_list(list);
            return NULL;
        }
        found->address = resolved->addresses[i];
        found->info = (struct addrinfo){.ai_family = found->address.ss_family,
                                        .ai_socktype = hints ? hints->ai_socktype : SOCK_STREAM,
                                        .ai_protocol = hints ? hints->ai_protocol : 0,
                                        .ai_addrlen = found->address.ss_family == AF_INET6
                                                          ? sizeof(struct sockaddr_in6)
                                                          : sizeof(struct sockaddr_in),
                                        .ai_addr = (struct sockaddr *)&found->address,
                                        .ai_next = list};
        list = &found->info;
    }
    return list;
}

/* Looks up a name for librdkafka if the guard allows it. A NULL `node` frees a list. */
static int on_resolve(const char *node, const char *service, const struct addrinfo *hints,
                      struct addrinfo **res, void *opaque)
{
    struct kafka_way *way = opaque;
    struct resolved resolved;
    uint64_t port;
    if (!node) {
        free_list(*res);
        return 0;
    }
    if (!service || !text_parse_u64(slice_of(service), UINT16_MAX, &port))
        return EAI_SERVICE;
    resolve_now(way->guard, node, (uint16_t)port, &resolved);
    if (resolved.count == 0) {
        way_refuse(way, resolved.error);
        return resolved.is_temporary ? EAI_AGAIN : EAI_FAIL;
    }
    *res = make_list(&resolved, hints);
    return *res ? 0 : EAI_MEMORY;
}

/* ---- connections ---- */

/* Extracts the host from librdkafka's name of a broker: "sasl_ssl://host:9092/1",
 * "[::1]:9092/bootstrap". */
static struct slice host_of(const char *id)
{
    const char *scheme = strstr(id, "://");
    const char *host = scheme ? scheme + 3 : id;
    const char *colon = strrchr(host, ':');
    size_t len = colon ? (size_t)(colon - host) : strcspn(host, "/");
    if (len > 2 && host[0] == '[' && host[len - 1] == ']')
        return slice_make(host + 1, len - 2);
    return slice_make(host, len);
}

/* Records an open socket with its host, so that a policy change can end it. */
static bool add_connection(struct kafka_way *way, int fd, const char *id)
{
    struct slice host = host_of(id ? id : "");
    struct kafka_connection *connection = calloc(1, sizeof *connection + host.len + 1);
    if (!connection)
        return false;
    memcpy(connection->host, host.at, host.len);
    connection->fd = fd;
    pthread_mutex_lock(&way->mutex);
    connection->next = way->connections;
    way->connections = connection;
    pthread_mutex_unlock(&way->mutex);
    return true;
}

/* Connects if the guard allows the address. The socket is non-blocking. */
static int on_connect(int fd, const struct sockaddr *address, int len, const char *id, void *opaque)
{
    struct kafka_way *way = opaque;
    enum guard_decision decision = guard_check_address(way->guard, address);
    if (decision != GUARD_ALLOWED) {
        way_refuse(way, guard_decision_name(decision));
        return EACCES;
    }
    if (!add_connection(way, fd, id))
        return ENOMEM;
    return connect(fd, address, (socklen_t)len) == 0 || errno == EINPROGRESS ? 0 : errno;
}

/* Removes a socket from the list before librdkafka closes it, so before its number can be
 * reused. */
static int on_close(int fd, void *opaque)
{
    struct kafka_way *way = opaque;
    pthread_mutex_lock(&way->mutex);
    struct kafka_connection **at = &way->connections;
    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    struct kafka_connection *gone = *at;
    if (gone)
        *at = gone->next;
    pthread_mutex_unlock(&way->mutex);
    free(gone);
    return close(fd);
}

/* Checks open connections against a new policy. Sockets are closed under the lock, so every
 * descriptor here still belongs to its connection. */
static void way_evaluate(struct kafka_way *way)
{
    uint64_t policy = guard_generation(way->guard);
    if (policy == way->policy)
        return;
    way->policy = policy;
    pthread_mutex_lock(&way->mutex);
    for (struct kafka_connection *at = way->connections; at; at = at->next) {
        if (guard_check_peer(way->guard, slice_of(at->host), at->fd) == GUARD_ALLOWED)
            continue;
        (void)snprintf(way->why, sizeof way->why, "the policy file forbids a connection now");
        way->refused_ms = clock_inner_ms();
        (void)shutdown(at->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&way->mutex);
}

static void way_init(struct kafka_way *way, struct guard *guard)
{
    way->guard = guard;
    way->why[0] = 0;
    way->refused_ms = 0;
    way->connections = NULL;
    way->policy = guard_generation(guard);
    pthread_mutex_init(&way->mutex, NULL);
}

static void way_fini(struct kafka_way *way)
{
    while (way->connections) {
        struct kafka_connection *next = way->connections->next;
        free(way->connections);
        way->connections = next;
    }
    pthread_mutex_destroy(&way->mutex);
}

static void way_guard(struct kafka_way *way, rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_opaque(conf, way);
    rd_kafka_conf_set_resolve_cb(conf, on_resolve);
    rd_kafka_conf_set_connect_cb(conf, on_connect);
    rd_kafka_conf_set_closesocket_cb(conf, on_close);
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

struct option {
    const char *name, *value;
};

static bool set_option(rd_kafka_conf_t *conf, const char *name, const char *value, char *error)
{
    char why[160];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
        return true;
    (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: '%s' cannot be set", name);
    return false;
}

/* Sets the options. The broker limits the size of messages, so librdkafka does not. Missing topics
 * are reported after two seconds instead of thirty. */
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
        if (!set_option(conf, options[i].name, options[i].value, error))
            return false;
    return set_option(conf, "batch.size", batch, error);
}

/* Sets login and CAs from the policy file; the origin of the first broker selects the
 * credential. */
static bool set_security(rd_kafka_conf_t *conf, const struct target_env *env,
                         const struct kafka_place *place, char *error)
{
    struct guard_credential credential;
    char ca_file[GUARD_PATH_BYTES_MAX];
    bool has_login = guard_find_credential(env->guard, place->at.origin, &credential), good;
    const char *protocol = place->at.is_tls ? has_login ? "sasl_ssl" : "ssl"
                           : has_login      ? "sasl_plaintext"
                                            : "plaintext";
    good = set_option(conf, "security.protocol", protocol, error);
    if (has_login)
        good = good && set_option(conf, "sasl.mechanisms", "PLAIN", error) &&
               set_option(conf, "sasl.username", credential.user, error) &&
               set_option(conf, "sasl.password", credential.password, error);
    explicit_bzero(&credential, sizeof credential);
    if (place->at.is_tls && guard_ca_file(env->guard, ca_file))
        good = good && set_option(conf, "ssl.ca.location", ca_file, error);
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
    if (!set_options(conf, error) ||
        !set_option(conf, "bootstrap.servers", place->servers, error) ||
        !set_security(conf, producer->env, place, error)) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    way_guard(&producer->way, conf);
    return conf;
}

/* ---- events ---- */

void kafka_producer_report_refusal(struct kafka_producer *producer,
                                   const struct outbox_message *message,
                                   char error[TARGET_ERROR_BYTES])
{
    char why[GUARD_ERROR_BYTES];
    if (way_refusal(&producer->way, message->added_ms - REFUSED_MS, why))
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
    if (!way_refusal(&producer->way, 0, why))
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
    way_evaluate(&producer->way);
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
    way_init(&producer->way, env->guard);
    rd_kafka_conf_t *conf = make_conf(producer, place, error);
    if (conf && producer_start(producer, conf, error))
        return producer;
    way_fini(&producer->way);
    free(producer);
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct kafka_producer *producer = handle->data;
    void (*gone)(void *) = producer->events.gone;
    void *ctx = producer->ctx;
    close(producer->fd);
    way_fini(&producer->way);
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
