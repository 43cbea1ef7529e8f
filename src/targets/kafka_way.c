#include "targets/kafka_way.h"

#include "base/clock.h"
#include "base/text.h"
#include "guard/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct found {
    struct addrinfo info; /* the first */
    struct sockaddr_storage address;
};

struct kafka_connection { /* an open one, of librdkafka's threads */
    struct kafka_connection *next;
    int fd;
    char host[]; /* empty: not known */
};

static void refuse(struct kafka_way *way, const char *why)
{
    pthread_mutex_lock(&way->mutex);
    (void)snprintf(way->why, sizeof way->why, "%s", why);
    way->refused_ms = clock_inner_ms();
    pthread_mutex_unlock(&way->mutex);
}

bool kafka_way_refusal(struct kafka_way *way, int64_t since_ms, char out[GUARD_ERROR_BYTES])
{
    pthread_mutex_lock(&way->mutex);
    bool is_told = way->why[0] && way->refused_ms >= since_ms;
    if (is_told)
        memcpy(out, way->why, sizeof way->why);
    pthread_mutex_unlock(&way->mutex);
    return is_told;
}

static void free_list(struct addrinfo *info)
{
    while (info) {
        struct addrinfo *next = info->ai_next;
        free(info);
        info = next;
    }
}

static struct addrinfo *make_list(const struct resolved *resolved, const struct addrinfo *hints)
{
    struct addrinfo *list = NULL;
    for (size_t i = resolved->count; i-- > 0;) {
        struct found *found = calloc(1, sizeof *found);
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
        refuse(way, resolved.error);
        return resolved.is_temporary ? EAI_AGAIN : EAI_FAIL;
    }
    *res = make_list(&resolved, hints);
    return *res ? 0 : EAI_MEMORY;
}

/* ---- connections ---- */

/* Of a broker's name as librdkafka has it: "sasl_ssl://host:9092/1", "[::1]:9092/bootstrap". */
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

/* The socket does not block. */
static int on_connect(int fd, const struct sockaddr *address, int len, const char *id, void *opaque)
{
    struct kafka_way *way = opaque;
    enum guard_verdict verdict = guard_check_address(way->guard, address);
    if (verdict != GUARD_ALLOWED) {
        refuse(way, guard_verdict_name(verdict));
        return EACCES;
    }
    if (!add_connection(way, fd, id))
        return ENOMEM;
    return connect(fd, address, (socklen_t)len) == 0 || errno == EINPROGRESS ? 0 : errno;
}

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

/* Sockets are closed under the lock's eye, so that no descriptor here is another's already. */
void kafka_way_judge(struct kafka_way *way)
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

void kafka_way_guard(struct kafka_way *way, rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_opaque(conf, way);
    rd_kafka_conf_set_resolve_cb(conf, on_resolve);
    rd_kafka_conf_set_connect_cb(conf, on_connect);
    rd_kafka_conf_set_closesocket_cb(conf, on_close);
}
