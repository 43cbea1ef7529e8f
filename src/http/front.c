/* A front: it listens, has its turns, and ends; and what all fronts of a server have in common. */
#include "http/connection.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    BUDGET_BYTES = 256 * 1024 * 1024,
    BODY_BYTES_MAX = 1 << 20,
    BATCH_BYTES_MAX = 16 << 20,
    CONNECTIONS_MAX = 10000,
    WAITING_MAX = 10000,
    IDLE_MS = 60 * 1000,
    HEADER_MS = 10 * 1000,
    BODY_MS = 120 * 1000
};

/* ---- what the fronts of a server have in common ---- */

struct http_shared *http_shared_new(const char *version)
{
    struct http_shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return NULL;
    shared->version = version;
    shared->started_ms = clock_wall_ms();
    shared->route_count = http_routes_list(shared->routes);
    http_shared_set_memory(shared, 0);
    http_shared_set_metrics_topics(shared, 0);
    pthread_mutex_init(&shared->lock, NULL);
    return shared;
}

void http_shared_free(struct http_shared *shared)
{
    if (!shared)
        return;
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

void http_shared_set_ready(struct http_shared *shared, bool ready)
{
    atomic_store_explicit(&shared->is_ready, ready, memory_order_release);
}

void http_shared_set_metrics_topics(struct http_shared *shared, uint32_t topics)
{
    enum { TOPICS = 200 };
    shared->metrics_topics = topics ? topics : TOPICS;
}

void http_shared_set_memory(struct http_shared *shared, uint64_t bytes_max)
{
    shared->memory_bytes_max = bytes_max ? bytes_max : BUDGET_BYTES;
}

void http_shared_add_metrics(struct http_shared *shared,
                             void (*emit)(void *ctx, struct buffer *out), void *ctx)
{
    shared->emit = emit;
    shared->emit_ctx = ctx;
}

void http_shared_set_hooks(struct http_shared *shared, const struct http_hooks *hooks)
{
    shared->hooks = hooks;
}

void http_shared_set_backup_hooks(struct http_shared *shared, const struct http_backup_hooks *hooks)
{
    shared->backup = hooks;
}

/* ---- turns ---- */

static void expire_waits(void *ctx)
{
    struct http_front *front = ctx;
    front->expiry_ms = INT64_MAX;
    front->now_ms = 0;
    waiters_expire(front->waiters, http_front_now_ms(front));
}

static void expire_connections(void *ctx)
{
    struct http_front *front = ctx;
    front->alarm_ms = INT64_MAX;
    front->now_ms = 0;
    http_connections_expire(front);
}

static void tell_drained(struct http_front *front)
{
    void (*drained)(void *ctx) = front->drained;
    if (!front->is_draining || front->open_handles || !drained)
        return;
    front->drained = NULL;
    drained(front->drained_ctx);
}

/* Writes what the turn has brought, and forgets its time. */
static bool on_front_turn_end(void *ctx)
{
    struct http_front *front = ctx;
    bool again = http_connections_flush(front);
    http_front_wake_by(front, waiters_next_ms(front->waiters));
    atomic_store_explicit(&front->counters.waiting, waiters_count(front->waiters),
                          memory_order_relaxed);
    if (front->now_ms)
        front->turn_ms = front->now_ms;
    front->now_ms = front->now_us = 0;
    front->has_date = front->is_late = false;
    tell_drained(front);
    return again;
}

/* ---- listening ---- */

static void on_connection(uv_stream_t *listener, int status)
{
    if (status == 0)
        http_connections_accept(listener->data);
}

/* Says in `error` why not. Returns the code. */
static int refuse_to_listen(char *error, size_t error_bytes, const struct http_options *options,
                            const char *what, int code)
{
    (void)snprintf(error, error_bytes, "cannot listen on '%s' port %u: %s: %s", options->host,
                   options->port, what,
                   code == UV_EADDRINUSE ? "the address is in use; stop what listens there, or "
                                           "choose another port"
                                         : uv_strerror(code));
    return code;
}

static int read_listen_address(const struct http_options *options, struct sockaddr_storage *out)
{
    if (uv_ip4_addr(options->host, options->port, (struct sockaddr_in *)out) == 0)
        return 0;
    return uv_ip6_addr(options->host, options->port, (struct sockaddr_in6 *)out);
}

static int open_listener_socket(const struct http_options *options,
                                const struct sockaddr_storage *address)
{
    int on = 1;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int code = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (code == 0 && options->reuse_port)
        code = setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    socklen_t bytes =
        address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (code == 0)
        code = bind(fd, (const struct sockaddr *)address, bytes);
    if (code != 0) {
        code = -errno;
        (void)close(fd);
        return code;
    }
    return fd;
}

static int listen_on(struct http_front *front, char *error, size_t error_bytes)
{
    const struct http_options *options = &front->options;
    struct sockaddr_storage address = {0};
    int code = read_listen_address(options, &address);
    if (code != 0)
        return refuse_to_listen(error, error_bytes, options,
                                "the host must be an address, not a name", code);
    int fd = open_listener_socket(options, &address);
    if (fd < 0)
        return refuse_to_listen(error, error_bytes, options, "bind", fd);
    (void)uv_tcp_init(reactor_loop(front->reactor), &front->listener);
    front->listener.data = front;
    front->is_listening = true;
    front->open_handles++;
    code = uv_tcp_open(&front->listener, fd);
    if (code != 0) {
        (void)close(fd);
        return refuse_to_listen(error, error_bytes, options, "open", code);
    }
    code = uv_listen((uv_stream_t *)&front->listener, BACKLOG, on_connection);
    if (code != 0)
        return refuse_to_listen(error, error_bytes, options, "listen", code);
    int bytes = sizeof address;
    (void)uv_tcp_getsockname(&front->listener, (struct sockaddr *)&address, &bytes);
    front->port = ntohs(((struct sockaddr_in *)&address)->sin_port); /* the same place in IPv6 */
    return 0;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct http_front *front = handle->data;
    front->open_handles--;
    reactor_turn_again(front->reactor);
}

static void stop_listening(struct http_front *front)
{
    if (front->is_listening)
        uv_close((uv_handle_t *)&front->listener, on_listener_closed);
    front->is_listening = false;
}

/* ---- life ---- */

/* The largest job goes into a batch too, in base64 and with all it brings. */
static uint64_t batch_bytes_max(uint64_t job_bytes)
{
    uint64_t bytes = job_bytes + job_bytes / 2 + 64 * 1024;
    return bytes > BATCH_BYTES_MAX ? bytes : BATCH_BYTES_MAX;
}

static void set_front_options(struct http_front *front, const struct http_options *given)
{
    struct http_options *options = &front->options;
    *options = *given;
    if (!options->body_bytes_max)
        options->body_bytes_max = BODY_BYTES_MAX;
    if (!options->batch_bytes_max)
        options->batch_bytes_max = batch_bytes_max(options->body_bytes_max);
    if (!options->connections_max)
        options->connections_max = CONNECTIONS_MAX;
    if (!options->waiting_max)
        options->waiting_max = WAITING_MAX;
    if (!options->idle_ms)
        options->idle_ms = IDLE_MS;
    if (!options->header_ms)
        options->header_ms = HEADER_MS;
    if (!options->body_ms)
        options->body_ms = BODY_MS;
}

/* From now on /metrics counts this front. False: there are too many. */
static bool enter_shared(struct http_front *front)
{
    struct http_shared *shared = front->shared;
    pthread_mutex_lock(&shared->lock);
    bool has_room = shared->front_count < HTTP_FRONTS_MAX;
    if (has_room)
        shared->fronts[shared->front_count++] = front;
    pthread_mutex_unlock(&shared->lock);
    return has_room;
}

static void leave_shared(struct http_front *front)
{
    struct http_shared *shared = front->shared;
    uint32_t kept = 0;
    pthread_mutex_lock(&shared->lock);
    for (uint32_t i = 0; i < shared->front_count; i++)
        if (shared->fronts[i] != front)
            shared->fronts[kept++] = shared->fronts[i];
    shared->front_count = kept;
    pthread_mutex_unlock(&shared->lock);
}

int http_front_new(struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   const struct http_options *options, struct http_shared *shared,
                   struct http_front **out, char *error, size_t error_bytes)
{
    struct http_front *front = calloc(1, sizeof *front);
    int code = UV_ENOMEM;
    if (!front)
        goto out_of_memory;
    front->reactor = reactor;
    front->queue = queue;
    front->waiters = waiters;
    front->shared = shared;
    set_front_options(front, options);
    list_init(&front->long_line);
    http_hosts_init(&front->hosts, options->host, options->allowed_hosts);
    front->alarm_ms = front->expiry_ms = INT64_MAX;
    list_init(&front->connections);
    list_init(&front->dirty);
    for (int i = 0; i < HTTP_PHASE_COUNT; i++)
        list_init(&front->timed[i]);
    slab_init(&front->exchanges, sizeof(struct http_exchange));
    buffer_init(&front->meta, JOB_META_BYTES_MAX);
    buffer_init(&front->decoded, HTTP_HEAD_BYTES_MAX);
    buffer_init(&front->body, (64 << 20) + 8 * front->options.body_bytes_max);
    buffer_init(&front->fields, 64 * 1024);
    buffer_init(&front->arena, front->options.batch_bytes_max + 64 * 1024);
    pthread_mutex_init(&front->lock, NULL);
    front->read_at = malloc(HTTP_READ_BYTES);
    front->alarm = deadline_new(reactor, expire_connections, front);
    front->expiry = deadline_new(reactor, expire_waits, front);
    reactor_at_turn_end(reactor, on_front_turn_end, front);
    /* So much is never outgrown, and slices into it stay good. */
    bool has_memory = front->read_at && front->alarm && front->expiry &&
                      buffer_reserve(&front->decoded, HTTP_HEAD_BYTES_MAX);
    if (!has_memory || !enter_shared(front)) {
        http_front_free(front);
        goto out_of_memory;
    }
    code = listen_on(front, error, error_bytes);
    if (code != 0) {
        http_front_free(front);
        return code;
    }
    *out = front;
    return 0;

out_of_memory:
    (void)snprintf(error, error_bytes, "cannot listen: out of memory");
    return code;
}

uint16_t http_front_port(const struct http_front *front)
{
    return front->port;
}

void http_front_drain(struct http_front *front, void (*drained)(void *ctx), void *ctx)
{
    front->is_draining = true;
    front->drained = drained;
    front->drained_ctx = ctx;
    stop_listening(front);
    http_connections_end(front, false);
    reactor_turn_again(front->reactor);
}

void http_front_free(struct http_front *front)
{
    if (!front)
        return;
    front->drained = NULL;
    front->is_ending = true;
    stop_listening(front);
    http_connections_end(front, true);
    while (front->open_handles)
        (void)uv_run(reactor_loop(front->reactor), UV_RUN_NOWAIT);
    reactor_remove_at_turn_end(front->reactor, on_front_turn_end, front);
    leave_shared(front);
    deadline_free(front->alarm);
    deadline_free(front->expiry);
    for (uint32_t i = 0; i < front->spare_count; i++)
        buffer_fini(&front->spares[i]);
    for (uint32_t id = 1; id <= front->exchanges.top; id++) {
        struct http_exchange *left = slab_at(&front->exchanges, id);
        buffer_fini(&left->reply); /* of those the queue has not answered; zeroed else */
        buffer_fini(&left->note);
        free(left->change);
    }
    slab_fini(&front->exchanges);
    free(front->pushes);
    free(front->answers);
    buffer_fini(&front->meta);
    buffer_fini(&front->decoded);
    buffer_fini(&front->body);
    buffer_fini(&front->fields);
    buffer_fini(&front->arena);
    pthread_mutex_destroy(&front->lock);
    free(front->read_at);
    free(front);
}
