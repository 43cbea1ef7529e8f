#include "redis/dial.h"

#include "base/clock.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

/* A peer that is gone without a word: found by probes where nothing is under way, by what is not
 * taken where something is (the system's own patience for that is a quarter of an hour). */
enum { ADDRESSES_MAX = 16, KEEPALIVE_S = 15, UNTAKEN_MS = 20000, WHY_BYTES = 512 };

/* A question to the resolver outlives its dial where it cannot be cancelled any more. */
struct lookup {
    uv_getaddrinfo_t request;
    struct redis_dial *dial;
};

struct redis_dial {
    struct reactor *reactor;
    struct redis_endpoint endpoint;
    redis_dial_done *done;
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

static struct redis_socket *socket_new(struct redis_dial *dial)
{
    uv_loop_t *loop = reactor_loop(dial->reactor);
    struct redis_socket *socket = malloc(sizeof *socket);
    if (!socket)
        return NULL;
    memset(socket, 0, offsetof(struct redis_socket, in));
    int error = dial->endpoint.port == 0 ? uv_pipe_init(loop, &socket->pipe, 0)
                                         : uv_tcp_init(loop, &socket->tcp);
    if (error) {
        free(socket);
        return NULL;
    }
    socket->handle.data = socket;
    socket->connecting.data = socket;
    socket->writing.data = socket;
    socket->owner = dial;
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

static void fail(struct redis_dial *dial, const char *what, const char *reason)
{
    char name[REDIS_NAME_BYTES];
    redis_endpoint_name(&dial->endpoint, name);
    (void)snprintf(dial->why, sizeof dial->why, "%s '%s': %s", what, name, reason);
    deadline_set(dial->deadline, INT64_MAX);
    reactor_once_at_turn_end(dial->reactor, &dial->failing);
}

static void try_next(struct redis_dial *dial, const char *reason);

static void on_connected(uv_connect_t *request, int status)
{
    struct redis_socket *socket = request->data;
    struct redis_dial *dial = socket->owner;
    if (!dial)
        return;
    dial->socket = NULL;
    if (status < 0) {
        redis_socket_close(socket);
        try_next(dial, uv_strerror(status));
        return;
    }
    deadline_set(dial->deadline, INT64_MAX);
    socket->owner = NULL;
    tune(socket);
    dial->done(dial->ctx, socket, NULL);
}

static int start(struct redis_dial *dial, const struct sockaddr_storage *address)
{
    struct redis_socket *socket = dial->socket = socket_new(dial);
    if (!socket)
        return UV_ENOMEM;
    if (address)
        return uv_tcp_connect(&socket->connecting, &socket->tcp,
                              (const struct sockaddr *)(const void *)address, on_connected);
    uv_pipe_connect(&socket->connecting, &socket->pipe, dial->endpoint.host, on_connected);
    return 0;
}

/* `reason`: what became of the one before. */
static void try_next(struct redis_dial *dial, const char *reason)
{
    while (dial->next < dial->address_count) {
        int64_t now_ms = clock_inner_ms(), left_ms = dial->until_ms - now_ms;
        int64_t share_ms = left_ms / (dial->address_count - dial->next);
        int error = start(dial, &dial->addresses[dial->next++]);
        if (error == 0) {
            deadline_set(dial->deadline, now_ms + (share_ms > 1 ? share_ms : 1));
            return;
        }
        redis_socket_close(dial->socket);
        dial->socket = NULL;
        reason = uv_strerror(error);
    }
    fail(dial, "no connection to", reason);
}

static void connect_path(struct redis_dial *dial)
{
    const struct sockaddr_un *limit = NULL;
    if (strlen(dial->endpoint.host) >= sizeof limit->sun_path) {
        fail(dial, "no connection to", "a socket's path has at most 107 bytes");
        return;
    }
    deadline_set(dial->deadline, dial->until_ms);
    if (start(dial, NULL) != 0)
        fail(dial, "no connection to", uv_strerror(UV_ENOMEM));
}

/* ---- the name's addresses ---- */

static void take_addresses(struct redis_dial *dial, const struct addrinfo *found)
{
    for (; found && dial->address_count < ADDRESSES_MAX; found = found->ai_next)
        if (found->ai_addrlen <= sizeof dial->addresses[0])
            memcpy(&dial->addresses[dial->address_count++], found->ai_addr, found->ai_addrlen);
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct lookup *lookup = request->data;
    struct redis_dial *dial = lookup->dial;
    free(lookup);
    if (dial) {
        dial->lookup = NULL;
        take_addresses(dial, found);
        if (status < 0)
            fail(dial, "no address of", uv_strerror(status));
        else
            try_next(dial, "it has no address");
    }
    uv_freeaddrinfo(found);
}

static void look_up(struct redis_dial *dial)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    (void)snprintf(port, sizeof port, "%u", (unsigned)dial->endpoint.port);
    struct lookup *lookup = calloc(1, sizeof *lookup);
    int error = UV_ENOMEM;
    if (lookup) {
        lookup->request.data = lookup;
        lookup->dial = dial;
        error = uv_getaddrinfo(reactor_loop(dial->reactor), &lookup->request, on_found,
                               dial->endpoint.host, port, &hints);
    }
    if (error) {
        free(lookup);
        fail(dial, "no address of", uv_strerror(error));
        return;
    }
    dial->lookup = lookup;
    deadline_set(dial->deadline, dial->until_ms);
}

/* An address needs no resolver, whose threads may all be busy with names that do not resolve. */
static bool is_address(struct redis_dial *dial)
{
    void *into = &dial->addresses[0];
    if (uv_ip4_addr(dial->endpoint.host, dial->endpoint.port, into) != 0 &&
        uv_ip6_addr(dial->endpoint.host, dial->endpoint.port, into) != 0)
        return false;
    dial->address_count = 1;
    return true;
}

/* ---- life ---- */

/* Lets go of what is under way. */
static void drop(struct redis_dial *dial)
{
    redis_socket_close(dial->socket);
    dial->socket = NULL;
    if (dial->lookup) {
        dial->lookup->dial = NULL;
        (void)uv_cancel((uv_req_t *)&dial->lookup->request);
        dial->lookup = NULL;
    }
}

static void on_deadline(void *ctx)
{
    struct redis_dial *dial = ctx;
    char reason[64];
    bool in_lookup = dial->lookup;
    drop(dial);
    (void)snprintf(reason, sizeof reason, "it took longer than %lld ms",
                   (long long)dial->connect_ms);
    if (in_lookup)
        fail(dial, "no address of", reason);
    else
        try_next(dial, reason);
}

static void on_failing(struct turn_end_call *call)
{
    struct redis_dial *dial = list_entry(call, struct redis_dial, failing);
    dial->done(dial->ctx, NULL, dial->why);
}

struct redis_dial *redis_dial_new(struct reactor *reactor, const struct redis_endpoint *endpoint,
                                  int64_t connect_ms, redis_dial_done *done, void *ctx)
{
    struct redis_dial *dial = calloc(1, sizeof *dial);
    if (!dial)
        return NULL;
    dial->deadline = deadline_new(reactor, on_deadline, dial);
    if (!dial->deadline) {
        free(dial);
        return NULL;
    }
    dial->reactor = reactor;
    dial->endpoint = *endpoint;
    dial->done = done;
    dial->ctx = ctx;
    dial->connect_ms = connect_ms;
    dial->until_ms = clock_inner_ms() + connect_ms;
    dial->failing.run = on_failing;
    list_init(&dial->failing.list);
    if (endpoint->port == 0)
        connect_path(dial);
    else if (is_address(dial))
        try_next(dial, "");
    else
        look_up(dial);
    return dial;
}

void redis_dial_free(struct redis_dial *dial)
{
    if (!dial)
        return;
    drop(dial);
    reactor_cancel_at_turn_end(&dial->failing);
    deadline_free(dial->deadline);
    free(dial);
}
