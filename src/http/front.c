#include "http/private.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    BODY_BYTES_MAX = 1 << 20,
    BATCH_BYTES_MAX = 16 << 20,
    CONNECTIONS_MAX = 10000,
    WAITING_MAX = 10000,
    IDLE_MS = 60 * 1000,
    HEADER_MS = 10 * 1000,
    BODY_MS = 120 * 1000
};

/* ---- time, looked at once a turn ---- */

static void look_at_clock(struct http_front *front)
{
    front->now_ms = clock_inner_ms();
    if (front->now_ms - front->turn_ms <= HTTP_LATE_MS || front->is_late)
        return;
    front->is_late = true;
    front->pauses++;
}

int64_t http_front_now_ms(struct http_front *front)
{
    if (!front->now_ms)
        look_at_clock(front);
    return front->now_ms;
}

int64_t http_front_now_us(struct http_front *front)
{
    if (!front->now_us)
        front->now_us = clock_boot_us();
    return front->now_us;
}

/* ---- memory for answers ---- */

void http_front_lend(struct http_front *front, struct buffer *buffer)
{
    if (buffer->cap)
        return;
    if (front->spare_count)
        *buffer = front->spares[--front->spare_count];
    else if (!buffer->bytes_max)
        buffer_init(buffer, HTTP_OUT_BYTES_MAX);
}

void http_front_give_back(struct http_front *front, struct buffer *buffer)
{
    if (buffer->cap && buffer->cap <= HTTP_SPARE_BYTES_MAX &&
        front->spare_count < HTTP_SPARES_MAX) {
        buffer_clear(buffer);
        buffer->bytes_max = HTTP_OUT_BYTES_MAX;
        front->spares[front->spare_count++] = *buffer;
    } else {
        buffer_fini(buffer);
    }
    *buffer = (struct buffer){0};
}

/* ---- turns ---- */

static void expire_waits(void *ctx)
{
    struct http_front *front = ctx;
    front->expiry_ms = INT64_MAX;
    front->now_ms = 0;
    waiters_expire(front->waiters, http_front_now_ms(front));
}

/* Set by the take itself too: the waiters learn that it has to wait only once the queue answered,
 * which may be after this turn's end. A wake-up too early does no harm. */
void http_front_wake_by(struct http_front *front, int64_t at_ms)
{
    if (at_ms >= front->expiry_ms)
        return;
    front->expiry_ms = at_ms;
    deadline_set(front->expiry, at_ms);
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

static bool on_turn_end(void *ctx)
{
    struct http_front *front = ctx;
    bool again = http_output_flush(front);
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
        http_connection_accept(listener->data, listener);
}

static int fail(char *error, size_t error_bytes, const struct http_options *options,
                const char *what, int code)
{
    (void)snprintf(error, error_bytes, "cannot listen on '%s' port %u: %s: %s", options->host,
                   options->port, what,
                   code == UV_EADDRINUSE ? "the address is in use; stop what listens there, or "
                                           "choose another port"
                                         : uv_strerror(code));
    return code;
}

static int read_address(const struct http_options *options, struct sockaddr_storage *out)
{
    if (uv_ip4_addr(options->host, options->port, (struct sockaddr_in *)out) == 0)
        return 0;
    return uv_ip6_addr(options->host, options->port, (struct sockaddr_in6 *)out);
}

static int open_socket(const struct http_options *options, const struct sockaddr_storage *address)
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
    int code = read_address(options, &address);
    if (code != 0)
        return fail(error, error_bytes, options, "the host must be an address, not a name", code);
    int fd = open_socket(options, &address);
    if (fd < 0)
        return fail(error, error_bytes, options, "bind", fd);
    (void)uv_tcp_init(reactor_loop(front->reactor), &front->listener);
    front->listener.data = front;
    front->is_listening = true;
    front->open_handles++;
    code = uv_tcp_open(&front->listener, fd);
    if (code != 0) {
        (void)close(fd);
        return fail(error, error_bytes, options, "open", code);
    }
    code = uv_listen((uv_stream_t *)&front->listener, BACKLOG, on_connection);
    if (code != 0)
        return fail(error, error_bytes, options, "listen", code);
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

static void set_options(struct http_front *front, const struct http_options *given)
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

static bool enroll(struct http_front *front)
{
    struct http_shared *shared = front->shared;
    pthread_mutex_lock(&shared->lock);
    bool has_room = shared->front_count < HTTP_FRONTS_MAX;
    if (has_room)
        shared->fronts[shared->front_count++] = front;
    pthread_mutex_unlock(&shared->lock);
    return has_room;
}

static void leave(struct http_front *front)
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
    set_options(front, options);
    http_admission_init(front);
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
    reactor_at_turn_end(reactor, on_turn_end, front);
    /* So much is never outgrown, and slices into it stay good. */
    bool has_memory = front->read_at && front->alarm && front->expiry &&
                      buffer_reserve(&front->decoded, HTTP_HEAD_BYTES_MAX);
    if (!has_memory || !enroll(front)) {
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
    for (struct list *node = front->connections.next; node != &front->connections;
         node = node->next) {
        struct http_connection *connection = list_entry(node, struct http_connection, node);
        connection->is_closing = true;
        http_input_drop(connection);
        if (connection->phase != HTTP_PHASE_WRITE && connection->phase != HTTP_PHASE_LINGER)
            http_connection_wait(connection, HTTP_PHASE_NONE, false);
        http_connection_touch(connection);
    }
    reactor_turn_again(front->reactor);
}

void http_front_free(struct http_front *front)
{
    if (!front)
        return;
    front->drained = NULL;
    front->is_ending = true;
    stop_listening(front);
    while (!list_is_empty(&front->connections))
        http_connection_cut(list_entry(front->connections.next, struct http_connection, node));
    while (front->open_handles)
        (void)uv_run(reactor_loop(front->reactor), UV_RUN_NOWAIT);
    reactor_remove_at_turn_end(front->reactor, on_turn_end, front);
    leave(front);
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
