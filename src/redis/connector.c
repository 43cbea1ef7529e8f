#include "redis/connector.h"

#include "base/clock.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

/* A peer that is gone without a word: found by probes where nothing is under way, by what is not
 * taken where something is (the system's own patience for that is a quarter of an hour). */
enum { ADDRESSES_MAX = 16, KEEPALIVE_S = 15, UNTAKEN_MS = 20000, WHY_BYTES = 512 };

/* A question to the resolver outlives its connector where it cannot be cancelled any more. */
struct lookup {
    uv_getaddrinfo_t request;
    struct redis_connector *connector;
};

struct redis_connector {
    struct reactor *reactor;
    struct redis_endpoint endpoint;
    redis_connector_done *done;
    void *ctx;
    int64_t connect_ms, until_ms;
    struct deadline *deadline;
    struct lookup *lookup;       /* under way */
    struct redis_socket *socket; /* under way */
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    uint32_t address_count, next;
    struct turn_end_call failing; /* what fails in a call is told after it */
    char why[WHY_BYTES];
};

void redis_endpoint_name(const struct redis_endpoint *endpoint, char out[REDIS_NAME_BYTES])
{
    bool is_ipv6 = strchr(endpoint->host, ':');
    if (endpoint->port == 0)
        (void)snprintf(out, REDIS_NAME_BYTES, "%s", endpoint->host);
    else
        (void)snprintf(out, REDIS_NAME_BYTES, is_ipv6 ? "[%s]:%u" : "%s:%u", endpoint->host,
                       (unsigned)endpoint->port);
}

/* ---- sockets ---- */

static void on_closed(uv_handle_t *handle)
{
    struct redis_socket *socket = handle->data;
    buffer_fini(&socket->sending);
    free(socket);
}

void redis_socket_close(struct redis_socket *socket)
{
    if (!socket)
        return;
    socket->owner = NULL;
    uv_close(&socket->handle, on_closed);
}

static struct redis_socket *socket_new(struct redis_connector *connector)
{
    uv_loop_t *loop = reactor_loop(connector->reactor);
    struct redis_socket *socket = malloc(sizeof *socket);
    if (!socket)
        return NULL;
    memset(socket, 0, offsetof(struct redis_socket, in));
    int error = connector->endpoint.port == 0 ? uv_pipe_init(loop, &socket->pipe, 0)
                                              : uv_tcp_init(loop, &socket->tcp);
    if (error) {
        free(socket);
        return NULL;
    }
    socket->handle.data = socket;
    socket->connecting.data = socket;
    socket->writing.data = socket;
    socket->owner = connector;
    return socket;
}

static void tune(struct redis_socket *socket)
{
    uv_os_fd_t fd;
    unsigned untaken_ms = UNTAKEN_MS;
    if (socket->handle.type != UV_TCP || uv_fileno(&socket->handle, &fd) != 0)
        return;
    (void)uv_tcp_nodelay(&socket->tcp, 1);
    (void)uv_tcp_keepalive(&socket->tcp, 1, KEEPALIVE_S);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &untaken_ms, sizeof untaken_ms);
}

/* ---- one address after the other ---- */

static void fail(struct redis_connector *connector, const char *what, const char *reason)
{
    char name[REDIS_NAME_BYTES];
    redis_endpoint_name(&connector->endpoint, name);
    (void)snprintf(connector->why, sizeof connector->why, "%s '%s': %s", what, name, reason);
    deadline_set(connector->deadline, INT64_MAX);
    reactor_once_at_turn_end(connector->reactor, &connector->failing);
}

static void try_next(struct redis_connector *connector, const char *reason);

static void on_connected(uv_connect_t *request, int status)
{
    struct redis_socket *socket = request->data;
    struct redis_connector *connector = socket->owner;
    if (!connector)
        return;
    connector->socket = NULL;
    if (status < 0) {
        redis_socket_close(socket);
        try_next(connector, uv_strerror(status));
        return;
    }
    deadline_set(connector->deadline, INT64_MAX);
    socket->owner = NULL;
    tune(socket);
    connector->done(connector->ctx, socket, NULL);
}

static int start(struct redis_connector *connector, const struct sockaddr_storage *address)
{
    struct redis_socket *socket = connector->socket = socket_new(connector);
    if (!socket)
        return UV_ENOMEM;
    if (address)
        return uv_tcp_connect(&socket->connecting, &socket->tcp,
                              (const struct sockaddr *)(const void *)address, on_connected);
    uv_pipe_connect(&socket->connecting, &socket->pipe, connector->endpoint.host, on_connected);
    return 0;
}

/* `reason`: what became of the one before. */
static void try_next(struct redis_connector *connector, const char *reason)
{
    while (connector->next < connector->address_count) {
        int64_t now_ms = clock_inner_ms(), left_ms = connector->until_ms - now_ms;
        int64_t share_ms = left_ms / (connector->address_count - connector->next);
        int error = start(connector, &connector->addresses[connector->next++]);
        if (error == 0) {
            deadline_set(connector->deadline, now_ms + (share_ms > 1 ? share_ms : 1));
            return;
        }
        redis_socket_close(connector->socket);
        connector->socket = NULL;
        reason = uv_strerror(error);
    }
    fail(connector, "no connection to", reason);
}

static void connect_path(struct redis_connector *connector)
{
    const struct sockaddr_un *limit = NULL;
    if (strlen(connector->endpoint.host) >= sizeof limit->sun_path) {
        fail(connector, "no connection to", "a socket's path has at most 107 bytes");
        return;
    }
    deadline_set(connector->deadline, connector->until_ms);
    if (start(connector, NULL) != 0)
        fail(connector, "no connection to", uv_strerror(UV_ENOMEM));
}

/* ---- the name's addresses ---- */

static void take_addresses(struct redis_connector *connector, const struct addrinfo *found)
{
    for (; found && connector->address_count < ADDRESSES_MAX; found = found->ai_next)
        if (found->ai_addrlen <= sizeof connector->addresses[0])
            memcpy(&connector->addresses[connector->address_count++], found->ai_addr,
                   found->ai_addrlen);
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct lookup *lookup = request->data;
    struct redis_connector *connector = lookup->connector;
    free(lookup);
    if (connector) {
        connector->lookup = NULL;
        take_addresses(connector, found);
        if (status < 0)
            fail(connector, "no address of", uv_strerror(status));
        else
            try_next(connector, "it has no address");
    }
    uv_freeaddrinfo(found);
}

static void look_up(struct redis_connector *connector)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    (void)snprintf(port, sizeof port, "%u", (unsigned)connector->endpoint.port);
    struct lookup *lookup = calloc(1, sizeof *lookup);
    int error = UV_ENOMEM;
    if (lookup) {
        lookup->request.data = lookup;
        lookup->connector = connector;
        error = uv_getaddrinfo(reactor_loop(connector->reactor), &lookup->request, on_found,
                               connector->endpoint.host, port, &hints);
    }
    if (error) {
        free(lookup);
        fail(connector, "no address of", uv_strerror(error));
        return;
    }
    connector->lookup = lookup;
    deadline_set(connector->deadline, connector->until_ms);
}

/* An address needs no resolver, whose threads may all be busy with names that do not resolve. */
static bool is_address(struct redis_connector *connector)
{
    void *into = &connector->addresses[0];
    if (uv_ip4_addr(connector->endpoint.host, connector->endpoint.port, into) != 0 &&
        uv_ip6_addr(connector->endpoint.host, connector->endpoint.port, into) != 0)
        return false;
    connector->address_count = 1;
    return true;
}

/* ---- life ---- */

/* Lets go of what is under way. */
static void drop(struct redis_connector *connector)
{
    redis_socket_close(connector->socket);
    connector->socket = NULL;
    if (connector->lookup) {
        connector->lookup->connector = NULL;
        (void)uv_cancel((uv_req_t *)&connector->lookup->request);
        connector->lookup = NULL;
    }
}

static void on_deadline(void *ctx)
{
    struct redis_connector *connector = ctx;
    char reason[64];
    bool in_lookup = connector->lookup;
    drop(connector);
    (void)snprintf(reason, sizeof reason, "it took longer than %lld ms",
                   (long long)connector->connect_ms);
    if (in_lookup)
        fail(connector, "no address of", reason);
    else
        try_next(connector, reason);
}

static void on_failing(struct turn_end_call *call)
{
    struct redis_connector *connector = list_entry(call, struct redis_connector, failing);
    connector->done(connector->ctx, NULL, connector->why);
}

struct redis_connector *redis_connector_new(struct reactor *reactor,
                                            const struct redis_endpoint *endpoint,
                                            int64_t connect_ms, redis_connector_done *done,
                                            void *ctx)
{
    struct redis_connector *connector = calloc(1, sizeof *connector);
    if (!connector)
        return NULL;
    connector->deadline = deadline_new(reactor, on_deadline, connector);
    if (!connector->deadline) {
        free(connector);
        return NULL;
    }
    connector->reactor = reactor;
    connector->endpoint = *endpoint;
    connector->done = done;
    connector->ctx = ctx;
    connector->connect_ms = connect_ms;
    connector->until_ms = clock_inner_ms() + connect_ms;
    connector->failing.run = on_failing;
    list_init(&connector->failing.list);
    if (endpoint->port == 0)
        connect_path(connector);
    else if (is_address(connector))
        try_next(connector, "");
    else
        look_up(connector);
    return connector;
}

void redis_connector_free(struct redis_connector *connector)
{
    if (!connector)
        return;
    drop(connector);
    reactor_cancel_at_turn_end(&connector->failing);
    deadline_free(connector->deadline);
    free(connector);
}
