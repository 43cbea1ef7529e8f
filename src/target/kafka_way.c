#include "target/kafka_way.h"

#include "base/text.h"
#include "guard/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct found {
    struct addrinfo info; /* the first */
    struct sockaddr_storage address;
};

static void refuse(struct kafka_way *way, const char *why)
{
    pthread_mutex_lock(&way->mutex);
    (void)snprintf(way->why, sizeof way->why, "%s", why);
    pthread_mutex_unlock(&way->mutex);
}

bool kafka_way_refusal(struct kafka_way *way, char out[GUARD_ERROR_BYTES])
{
    pthread_mutex_lock(&way->mutex);
    memcpy(out, way->why, sizeof way->why);
    pthread_mutex_unlock(&way->mutex);
    return out[0];
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

/* The socket does not block. */
static int on_connect(int fd, const struct sockaddr *address, int len, const char *id, void *opaque)
{
    struct kafka_way *way = opaque;
    enum guard_verdict verdict = guard_check_address(way->guard, address);
    (void)id;
    if (verdict != GUARD_ALLOWED) {
        refuse(way, guard_verdict_name(verdict));
        return EACCES;
    }
    return connect(fd, address, (socklen_t)len) == 0 || errno == EINPROGRESS ? 0 : errno;
}

void kafka_way_init(struct kafka_way *way, struct guard *guard)
{
    way->guard = guard;
    way->why[0] = 0;
    pthread_mutex_init(&way->mutex, NULL);
}

void kafka_way_fini(struct kafka_way *way)
{
    pthread_mutex_destroy(&way->mutex);
}

void kafka_way_guard(struct kafka_way *way, rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_opaque(conf, way);
    rd_kafka_conf_set_resolve_cb(conf, on_resolve);
    rd_kafka_conf_set_connect_cb(conf, on_connect);
}
