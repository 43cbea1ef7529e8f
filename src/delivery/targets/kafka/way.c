#include "targets/kafka/way.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "guard/resolve.h"
#include "targets/target.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- address ---- */

bool kafka_place_parse(struct slice to, struct kafka_place *out, struct slice *query, char *error)
{
    struct url url;
    struct buffer servers;
    if (!target_place_parse(to, target_kafka_schemes, &url, &out->at, error))
        return false;
    if (url.path.len > 1 || (url.has_query && !query))
        return error_text(error, TARGET_ERROR_BYTES,
                          "it has a path or a query, give the topic in 'topic', and write "
                          "kafka://host:9092,host:9092");
    if (query)
        *query = url.has_query ? url.query : (struct slice){0};
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

/* ---- connections to the brokers ---- */

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

bool kafka_way_refusal(struct kafka_way *way, int64_t since_ms, char out[GUARD_ERROR_BYTES])
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
void kafka_way_evaluate(struct kafka_way *way)
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

void kafka_way_init(struct kafka_way *way, struct guard *guard)
{
    way->guard = guard;
    way->why[0] = 0;
    way->refused_ms = 0;
    way->connections = NULL;
    way->policy = guard_generation(guard);
    pthread_mutex_init(&way->mutex, NULL);
}

void kafka_way_fini(struct kafka_way *way)
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

/* ---- configuration ---- */

bool kafka_option_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error)
{
    char why[160];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
        return true;
    (void)snprintf(error, TARGET_ERROR_BYTES, "kafka: '%s' cannot be set", name);
    return false;
}

/* Sets login and CAs from the policy file; the origin of the first broker selects the
 * credential. */
static bool set_security(rd_kafka_conf_t *conf, struct guard *guard,
                         const struct kafka_place *place, char *error)
{
    struct guard_credential credential;
    char ca_file[GUARD_PATH_BYTES_MAX];
    bool has_login = guard_find_credential(guard, place->at.origin, &credential), good;
    const char *protocol = place->at.is_tls ? has_login ? "sasl_ssl" : "ssl"
                           : has_login      ? "sasl_plaintext"
                                            : "plaintext";
    good = kafka_option_set(conf, "security.protocol", protocol, error);
    if (has_login)
        good = good && kafka_option_set(conf, "sasl.mechanisms", "PLAIN", error) &&
               kafka_option_set(conf, "sasl.username", credential.user, error) &&
               kafka_option_set(conf, "sasl.password", credential.password, error);
    explicit_bzero(&credential, sizeof credential);
    if (place->at.is_tls && guard_ca_file(guard, ca_file))
        good = good && kafka_option_set(conf, "ssl.ca.location", ca_file, error);
    return good;
}

static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
    (void)kafka;
    (void)level;
    log_event(LOG_DEBUG, "librdkafka", LOG_TEXT("facility", facility), LOG_TEXT("text", text));
}

rd_kafka_conf_t *kafka_way_conf(struct kafka_way *way, const struct kafka_place *place, char *error)
{
    static const struct kafka_option options[] = {
        {"client.id", "tarry"},
        {"reconnect.backoff.max.ms", "2000"},
        {"socket.connection.setup.timeout.ms", "10000"},
        {"socket.keepalive.enable", "true"},
        {"socket.nagle.disable", "true"},
        {"log_level", "4"},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    bool good = kafka_option_set(conf, "bootstrap.servers", place->servers, error) &&
                set_security(conf, way->guard, place, error);
    for (size_t i = 0; good && i < sizeof options / sizeof options[0]; i++)
        good = kafka_option_set(conf, options[i].name, options[i].value, error);
    if (!good) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    rd_kafka_conf_set_log_cb(conf, on_log);
    way_guard(way, conf);
    return conf;
}
