/* A front: its listeners, its loop iterations and its end; and the state that all fronts of a
 * server share. */
#include "http/connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "http/stream.h"
#include "net/activity.h"
#include "trace/carry.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUDGET_BYTES = 256 * 1024 * 1024,
    BODY_BYTES_MAX = 1 << 20,
    BATCH_BYTES_MAX = 16 << 20,
    CONNECTIONS_MAX = 10000,
    WAITING_MAX = 10000,
    IDLE_MS = 60 * 1000,
    METRICS_TOPICS = 200,
    LOOK_MS = 1000, /* interval of checks of the callers of waiting takes */
    HEADER_MS = 10 * 1000,
    BODY_MS = 120 * 1000,
    /* Memory of the arena in addition to the content of a body. */
    ARENA_BYTES_BESIDE = 64 * 1024 + QUEUE_BATCH_MAX * TRACE_META_BYTES_MAX
};

/* ---- shared state ---- */

struct http_shared *http_shared_new(const char *version)
{
    struct http_shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return NULL;
    shared->version = version;
    shared->started_ms = clock_wall_ms();
    http_shared_set_memory(shared, 0);
    shared->metrics_topics = METRICS_TOPICS;
    pthread_mutex_init(&shared->lock, NULL);
    pthread_mutex_init(&shared->tls_lock, NULL);
    return shared;
}

void http_shared_free(struct http_shared *shared)
{
    if (!shared)
        return;
    pthread_mutex_destroy(&shared->lock);
    pthread_mutex_destroy(&shared->tls_lock);
    tls_context_release(shared->tls);
    for (uint32_t i = shared->part_count; i-- > 0;)
        if (shared->parts[i]->free)
            shared->parts[i]->free(shared);
    free(shared);
}

void http_shared_add_part(struct http_shared *shared, const struct http_part *part)
{
    assert(shared->part_count < HTTP_ROOMS);
    shared->parts[shared->part_count++] = part;
    for (size_t i = 0; part->tables && part->tables[i]; i++)
        for (const struct http_route *row = part->tables[i]; row->pattern; row++) {
            bool has_topic = strstr(row->pattern, "{topic}") != NULL;
            assert(row->scope && row->topics && has_topic == (row->topics == HTTP_TOPICS_PATH));
            assert(row->scope != ACCESS_ADMIN || row->audit);
            (void)has_topic;
            http_shared_add_routes(shared, (const struct http_route[]){*row, {0}}, NULL);
        }
}

/* Returns whether a path may match both patterns. A segment with a {word} matches any other. */
static bool patterns_meet(const char *one, const char *other)
{
    for (;;) {
        size_t len = strcspn(one, "/"), other_len = strcspn(other, "/");
        bool has_word = memchr(one, '{', len) || memchr(other, '{', other_len);
        if (!has_word && (len != other_len || memcmp(one, other, len) != 0))
            return false;
        one += len;
        other += other_len;
        if (!*one || !*other)
            return *one == *other;
        one++;
        other++;
    }
}

/* Returns whether no earlier route matches a path of this one. */
static bool route_is_alone(const struct http_shared *shared, const struct http_route *route)
{
    for (uint32_t i = 0; i < shared->route_count; i++)
        if (shared->routes[i].method == route->method &&
            patterns_meet(shared->routes[i].pattern, route->pattern))
            return false;
    return true;
}

void http_shared_add_routes(struct http_shared *shared, const struct http_route *rows,
                            const void *about)
{
    for (; rows->pattern; rows++) {
        struct http_route *route = &shared->routes[shared->route_count];
        assert(shared->route_count < HTTP_ROUTES_MAX - 1);
        assert(rows->scope != ACCESS_ADMIN || rows->audit);
        *route = *rows;
        route->head_bytes = (uint8_t)strcspn(rows->pattern, "{");
        route->is_alone = route_is_alone(shared, route);
        route->about = about;
        shared->route_count++;
    }
}

void http_shared_set_ready(struct http_shared *shared, bool ready)
{
    atomic_store_explicit(&shared->is_ready, ready, memory_order_release);
}

void http_shared_set_lateness(struct http_shared *shared, struct lateness *lateness)
{
    shared->lateness = lateness;
    shared->metrics_topics = lateness_topics_max(lateness);
}

void http_shared_set_tracer(struct http_shared *shared, struct tracer *tracer)
{
    shared->tracer = tracer;
}

void http_shared_set_memory(struct http_shared *shared, uint64_t bytes_max)
{
    shared->budget.bytes_max = bytes_max ? bytes_max : BUDGET_BYTES;
}

struct budget *http_shared_budget(struct http_shared *shared)
{
    return &shared->budget;
}

void http_shared_set_tls(struct http_shared *shared, struct tls_context *context)
{
    pthread_mutex_lock(&shared->tls_lock);
    struct tls_context *former = shared->tls;
    shared->tls = tls_context_hold(context);
    pthread_mutex_unlock(&shared->tls_lock);
    tls_context_release(former);
}

void http_shared_add_metrics(struct http_shared *shared,
                             bool (*emit)(void *ctx, struct metric_page *page, uint32_t part),
                             void *ctx)
{
    shared->emit = emit;
    shared->emit_ctx = ctx;
}

void http_shared_set_access(struct http_shared *shared, struct access *access)
{
    shared->access = access;
}

void http_shared_set_sign_in(struct http_shared *shared, const struct http_sign_in *sign_in)
{
    shared->sign_in = sign_in;
}

void http_shared_set_trace_url(struct http_shared *shared, const char *url)
{
    shared->trace_url = url;
}

void http_shared_set_quota(struct http_shared *shared, struct quota *quota)
{
    shared->quota = quota;
}

void http_shared_set_process_memory(struct http_shared *shared, uint64_t bytes_max)
{
    shared->process_bytes_max = bytes_max;
}

void http_shared_note_memory(struct http_shared *shared, uint64_t bytes, bool is_spent)
{
    atomic_store_explicit(&shared->process_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&shared->is_memory_spent, is_spent, memory_order_relaxed);
}

void http_shared_note_certificate(struct http_shared *shared, int64_t ends_s)
{
    atomic_store_explicit(&shared->certificate_ends_s, ends_s, memory_order_relaxed);
}

void http_shared_set_hooks(struct http_shared *shared, const struct http_hooks *hooks)
{
    shared->hooks = hooks;
}

void http_shared_set_server_hooks(struct http_shared *shared, const struct http_server_hooks *hooks)
{
    shared->server = hooks;
}

void http_shared_set_clock_hooks(struct http_shared *shared, const struct http_clock_hooks *hooks)
{
    shared->clock = hooks;
}

void http_shared_set_drain_hooks(struct http_shared *shared, const struct http_drain_hooks *hooks)
{
    shared->drain = hooks;
}

void http_shared_set_backup_hooks(struct http_shared *shared, const struct http_backup_hooks *hooks)
{
    shared->backup = hooks;
}

uint64_t http_shared_bytes_in(struct http_shared *shared)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&shared->lock);
    for (uint32_t i = 0; i < shared->front_count; i++)
        bytes += atomic_load_explicit(&shared->fronts[i]->counters.bytes_in, memory_order_relaxed);
    pthread_mutex_unlock(&shared->lock);
    return bytes;
}

void http_shared_wake_once(struct http_shared *shared, void (*wake)(void *ctx), void *ctx)
{
    shared->wake = wake;
    shared->wake_ctx = ctx;
    atomic_store_explicit(&shared->wants_wake, true, memory_order_release);
}

/* ---- listening ---- */

/* Fronts that share a descriptor distribute its connections evenly. While no connection can be
 * accepted, new ones wait in the kernel. */

enum {
    ACCEPTS_MAX = 256,    /* per loop iteration */
    ACCEPTS_WAITING = 16, /* while handshakes are queued, on a listener with TLS */
    STALL_MS = 100,       /* retry interval when memory or descriptors are exhausted */
    AHEAD_MAX = 8,        /* lead in connections that a front may have over another */
    AHEAD_MS = 1,
    SETTLE_MS = 20 /* time for handshakes in progress */
};

static void ring_in(struct http_front *front, int64_t ms)
{
    deadline_set(front->listening_alarm, http_front_now_ms(front) + ms);
}

static void on_listener_ready(uv_poll_t *poll, int status, int events);

static bool watch(struct http_listener *listener)
{
    return uv_poll_start(&listener->poll, UV_READABLE, on_listener_ready) == 0;
}

/* ---- pausing ---- */

/* Pauses the shared listeners, or all. */
static void pause_listeners(struct http_front *front, bool all, int64_t ms)
{
    for (uint32_t i = 0; i < front->listener_count; i++) {
        struct http_listener *listener = &front->listeners[i];
        if (!listener->is_open || !(all || listener->is_shared))
            continue;
        (void)uv_poll_stop(&listener->poll);
        listener->was_paused = true;
    }
    if (!front->is_draining) /* else the alarm belongs to the drain, which resumes them */
        ring_in(front, ms);
}

static void end_pause(struct http_front *front)
{
    for (uint32_t i = 0; i < front->listener_count; i++)
        if (front->listeners[i].is_open)
            (void)watch(&front->listeners[i]);
}

/* ---- accepting ---- */

/* Returns whether the front has clearly more connections than another one. */
static bool is_ahead(struct http_front *front)
{
    struct http_shared *shared = front->shared;
    uint64_t least = front->connection_count;
    pthread_mutex_lock(&shared->lock);
    for (uint32_t i = 0; i < shared->front_count; i++) {
        uint64_t count =
            atomic_load_explicit(&shared->fronts[i]->counters.connections, memory_order_relaxed);
        least = count < least ? count : least;
    }
    pthread_mutex_unlock(&shared->lock);
    return front->connection_count > least + least / 8 + AHEAD_MAX;
}

/* Returns how many connections to accept now. The system wakes every front for a connection to a shared
 * descriptor, always in the same order. So each front accepts one at a time, and one that is ahead
 * leaves connections to the others for a moment. If no other front has accepted it by then, this
 * front does. */
static int accepts_due(struct http_listener *listener)
{
    bool has_line = listener->about->options.tls && !list_is_empty(&listener->front->put_off);
    if (!listener->is_shared)
        return has_line ? ACCEPTS_WAITING : ACCEPTS_MAX;
    if (listener->was_paused || listener->front->is_draining || !is_ahead(listener->front))
        return 1;
    pause_listeners(listener->front, false, AHEAD_MS);
    return 0;
}

/* Accepts at most that many connections, and no more once the iteration is late: the loop finds the rest again. Returns
 * false if no more are waiting. */
static bool let_in(struct http_listener *listener, int most)
{
    struct http_front *front = listener->front;
    activity_begin("connections");
    for (int begun = 0; begun < most; begun++) {
        struct peer peer;
        if (begun && !front->is_draining && reactor_is_late(front->reactor))
            return true;
        int fd = listener_accept(listener->about, listener->fd, &peer);
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM)
            pause_listeners(front, true, STALL_MS);
        if (fd < 0)
            return false;
        listener->was_paused = false;
        front->accepted_ms = http_front_now_ms(front);
        http_connection_enter(listener, fd, &peer);
    }
    return true;
}

static void on_listener_ready(uv_poll_t *poll, int status, int events)
{
    struct http_listener *listener = poll->data;
    (void)status;
    (void)events;
    (void)let_in(listener, accepts_due(listener));
}

/* ---- end of listening ---- */

static void on_listener_closed(uv_handle_t *handle)
{
    struct http_listener *listener = handle->data;
    listener->front->open_handles--;
    reactor_iterate_again(listener->front->reactor);
}

static void close_listener(struct http_listener *listener)
{
    if (!listener->is_open)
        return;
    listener->is_open = false;
    uv_close((uv_handle_t *)&listener->poll, on_listener_closed);
    (void)close(listener->fd);
}

/* Closes the listeners immediately. May be called repeatedly. */
static void listening_close(struct http_front *front)
{
    for (uint32_t i = 0; i < front->listener_count; i++)
        close_listener(&front->listeners[i]);
}

/* Logs it once for all listeners of all threads. */
static void log_not_refused(struct http_shared *shared, int code)
{
    if (!atomic_exchange(&shared->is_refusal_logged, true))
        log_event(
            LOG_INFO, "cannot stop accepting connections", LOG_TEXT("error", strerror(-code)),
            LOG_TEXT("consequence", "a client that connects in the last 20 ms is disconnected"));
}

/* Refuses new handshakes. Handshakes in progress have SETTLE_MS to end. */
static void refuse_more(struct http_front *front)
{
    for (uint32_t i = 0; i < front->listener_count; i++) {
        const struct http_listener *listener = &front->listeners[i];
        int code = listener->is_open ? listener_refuse_more(listener->about, listener->fd) : 0;
        if (code != 0)
            log_not_refused(front->shared, code);
    }
}

static void let_in_rest(struct http_front *front)
{
    for (uint32_t i = 0; i < front->listener_count; i++)
        while (front->listeners[i].is_open && let_in(&front->listeners[i], ACCEPTS_MAX))
            ;
}

/* Accepts the connections that have arrived, and closes: immediately if no connection came
 * recently, else after about HTTP_POLITE_MS, so that no handshake is interrupted. Connections on an
 * inherited socket stay in its queue for the next process that inherits it. */
static void listening_drain(struct http_front *front)
{
    for (uint32_t i = 0; i < front->listener_count; i++)
        if (front->listeners[i].about->is_inherited)
            close_listener(&front->listeners[i]);
    bool is_quiet = http_front_now_ms(front) - front->accepted_ms > HTTP_RECENT_MS;
    if (is_quiet)
        refuse_more(front);
    front->is_settling = is_quiet;
    ring_in(front, is_quiet ? 0 : HTTP_POLITE_MS - SETTLE_MS);
}

static void on_alarm(void *ctx)
{
    struct http_front *front = ctx;
    if (!front->is_draining) {
        end_pause(front);
        return;
    }
    let_in_rest(front);
    if (front->is_settling) {
        listening_close(front);
        return;
    }
    refuse_more(front);
    front->is_settling = true;
    ring_in(front, SETTLE_MS);
}

/* ---- start of listening ---- */

/* Applies changed names or origins of the front's options to the listeners. */
static void listening_rename(struct http_front *front)
{
    for (uint32_t i = 0; i < front->listener_count; i++)
        http_hosts_init(&front->listeners[i].hosts, front->listeners[i].about->is_local,
                        front->options.allowed_hosts, front->options.cors_origins);
}

static int open_listener(struct http_front *front, struct listener *about, char *error)
{
    struct http_listener *listener = &front->listeners[front->listener_count++];
    listener->front = front;
    listener->about = about;
    http_hosts_init(&listener->hosts, about->is_local, front->options.allowed_hosts,
                    front->options.cors_origins);
    listener->is_shared = about->kind == LISTENER_UNIX || about->is_inherited;
    listener->fd = listener_descriptor(about, error);
    if (listener->fd < 0)
        return UV_EADDRINUSE;
    int code = uv_poll_init(reactor_loop(front->reactor), &listener->poll, listener->fd);
    if (code != 0) {
        (void)close(listener->fd);
        return error_result(code, error, LISTENER_ERROR_BYTES, "cannot listen on '%s', %s",
                            about->name, uv_strerror(code));
    }
    listener->poll.data = listener;
    listener->is_open = true;
    front->open_handles++;
    if (!watch(listener))
        return error_result(UV_ENOMEM, error, LISTENER_ERROR_BYTES,
                            "cannot listen on '%s', out of memory", about->name);
    return 0;
}

/* Opens all listeners of the front's options. On an error, listening_close closes those already
 * open. */
static int listening_open(struct http_front *front, char *error)
{
    struct listeners *listeners = front->options.listeners;
    front->listening_alarm = deadline_new(front->reactor, on_alarm, front);
    if (!front->listening_alarm)
        return error_result(UV_ENOMEM, error, LISTENER_ERROR_BYTES, "cannot listen, out of memory");
    for (uint32_t i = 0; i < listeners->count; i++) {
        int code = open_listener(front, &listeners->at[i], error);
        if (code != 0)
            return code;
    }
    return 0;
}

/* ---- loop iterations ---- */

static void expire_waits(void *ctx)
{
    struct http_front *front = ctx;
    front->expiry_ms = INT64_MAX;
    front->now_ms = 0;
    waiters_expire(front->waiters, http_front_now_ms(front));
    ends_expire(front->ends, http_front_now_ms(front));
    if (front->held_waits) {
        http_gate_end_waits(front);
        http_streams_end_unheld(front);
    }
}

static void expire_connections(void *ctx)
{
    struct http_front *front = ctx;
    front->alarm_ms = INT64_MAX;
    front->now_ms = 0;
    http_connections_expire(front);
}

static void report_drained(struct http_front *front)
{
    void (*drained)(void *ctx) = front->drained;
    if (!front->is_draining || front->open_handles || !drained)
        return;
    front->drained = NULL;
    drained(front->drained_ctx);
}

/* Writes the output of the loop iteration and forgets its time. */
static bool on_front_iteration_end(void *ctx)
{
    struct http_front *front = ctx;
    bool again = http_connections_flush(front);
    http_front_wake_by(front, waiters_next_ms(front->waiters));
    http_front_wake_by(front, ends_next_ms(front->ends));
    if (front->held_waits)
        http_front_wake_by(front, http_front_now_ms(front) + LOOK_MS);
    atomic_store_explicit(&front->counters.waiting,
                          waiters_count(front->waiters) + ends_count(front->ends),
                          memory_order_relaxed);
    for (uint32_t i = 0; i < front->shared->part_count; i++)
        if (front->shared->parts[i]->iteration_end)
            front->shared->parts[i]->iteration_end(front);
    if (front->now_ms)
        front->iteration_ms = front->now_ms;
    front->now_ms = 0;
    front->has_date = front->is_late = false;
    report_drained(front);
    return again;
}

/* ---- life ---- */

/* Counts what waits for several jobs keep of those that have ended. They may use half of the budget, so that the others can end. */
static bool count_kept(void *ctx, int64_t bytes)
{
    struct http_front *front = ctx;
    if (bytes < 0)
        http_budget_remove(front, (size_t)-bytes);
    else if (http_budget_used(front->shared) + (size_t)bytes > front->shared->budget.bytes_max / 2)
        return false;
    else
        http_budget_add(front, (size_t)bytes);
    return true;
}

static bool open_parts(struct http_front *front)
{
    bool is_open = true;
    for (uint32_t i = 0; is_open && i < front->shared->part_count; i++)
        is_open = !front->shared->parts[i]->open || front->shared->parts[i]->open(front);
    return is_open;
}

static void close_parts(struct http_front *front)
{
    for (uint32_t i = front->shared->part_count; i-- > 0;)
        if (front->shared->parts[i]->close)
            front->shared->parts[i]->close(front);
}

/* Returns the limit of a batch: at least the largest job in base64 with all its options. */
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
    if (!options->result_bytes_max)
        options->result_bytes_max = JOB_RESULT_BYTES;
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

/* Adds the front to the shared state, so that /metrics counts it. Returns false if there are too
 * many. */
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
                   struct http_front **out, char *error)
{
    struct http_front *front = calloc(1, sizeof *front);
    int code = UV_ENOMEM;
    if (!front)
        goto out_of_memory;
    front->reactor = reactor;
    front->queue = queue;
    front->waiters = waiters;
    front->shared = shared;
    front->call.queue.rules = &access_rules;
    front->call.quota = shared->quota;
    set_front_options(front, options);
    list_init(&front->long_line);
    list_init(&front->put_off);
    list_init(&front->sated);
    front->alarm_ms = front->expiry_ms = INT64_MAX;
    list_init(&front->connections);
    list_init(&front->streams);
    list_init(&front->stream_places);
    list_init(&front->dirty);
    for (int i = 0; i < HTTP_PHASE_COUNT; i++)
        list_init(&front->timed[i]);
    slab_init(&front->exchanges, sizeof(struct http_exchange));
    buffer_init(&front->meta, JOB_META_BYTES_MAX);
    buffer_init(&front->decoded, HTTP_HEAD_BYTES_MAX);
    buffer_init(&front->body, (64 << 20) + 8 * front->options.body_bytes_max);
    buffer_init(&front->fields, 64 * 1024);
    buffer_init(&front->trailers, 64 * 1024);
    buffer_init(&front->arena, front->options.batch_bytes_max + ARENA_BYTES_BESIDE);
    front->read_at = malloc(HTTP_READ_BYTES);
    front->sealed_at = malloc(HTTP_READ_BYTES);
    front->ends = ends_new(queue, front->options.waiting_max ? front->options.waiting_max : 10000);
    if (front->ends)
        ends_count_bytes(front->ends, count_kept, front);
    front->alarm = deadline_new(reactor, expire_connections, front);
    front->expiry = deadline_new(reactor, expire_waits, front);
    front->stream_alarm = deadline_new(reactor, http_streams_ping, front);
    bool has_parts = open_parts(front);
    reactor_at_iteration_end(reactor, on_front_iteration_end, front);
    /* The buffers never grow beyond this size, so slices into them stay valid. */
    bool has_memory = front->read_at && front->sealed_at && front->ends && front->alarm &&
                      front->expiry && front->stream_alarm && has_parts &&
                      buffer_reserve(&front->decoded, HTTP_HEAD_BYTES_MAX);
    if (!has_memory || !enter_shared(front)) {
        http_front_free(front);
        goto out_of_memory;
    }
    code = listening_open(front, error);
    if (code != 0) {
        http_front_free(front);
        return code;
    }
    *out = front;
    return 0;

out_of_memory:
    return error_result(code, error, LISTENER_ERROR_BYTES, "cannot listen, out of memory");
}

void http_front_change(struct http_front *front, const struct http_options *options)
{
    struct http_options changed = front->options;
    changed.allowed_hosts = options->allowed_hosts;
    changed.cors_origins = options->cors_origins;
    changed.connections_max = options->connections_max;
    changed.idle_ms = options->idle_ms;
    set_front_options(front, &changed);
    listening_rename(front);
    http_connections_hurry(front);
}

void http_front_drain(struct http_front *front, void (*drained)(void *ctx), void *ctx)
{
    front->is_draining = true;
    front->drained = drained;
    front->drained_ctx = ctx;
    listening_drain(front);
    ends_drain(front->ends);
    http_connections_drain(front);
    reactor_iterate_again(front->reactor);
}

void http_front_free(struct http_front *front)
{
    if (!front)
        return;
    front->drained = NULL;
    front->is_ending = true;
    listening_close(front);
    http_connections_cut(front);
    while (front->open_handles)
        (void)uv_run(reactor_loop(front->reactor), UV_RUN_NOWAIT);
    reactor_remove_at_iteration_end(front->reactor, on_front_iteration_end, front);
    leave_shared(front);
    ends_free(front->ends);
    deadline_free(front->listening_alarm);
    deadline_free(front->alarm);
    deadline_free(front->expiry);
    deadline_free(front->stream_alarm);
    close_parts(front);
    for (uint32_t i = 0; i < front->spare_count; i++)
        buffer_fini(&front->spares[i]);
    for (uint32_t id = 1; id <= front->exchanges.top; id++) {
        struct http_exchange *left = slab_at(&front->exchanges, id);
        buffer_fini(&left->reply); /* an exchange that the queue has not answered, or zeroed */
        buffer_fini(&left->note);
        buffer_fini(&left->leases);
        if (left->change)
            http_change_end(left, "unknown");
        access_caller_release(left->caller);
    }
    slab_fini(&front->exchanges);
    buffer_fini(&front->meta);
    buffer_fini(&front->decoded);
    buffer_fini(&front->body);
    buffer_fini(&front->fields);
    buffer_fini(&front->trailers);
    buffer_fini(&front->arena);
    free(front->read_at);
    free(front->frame_at);
    free(front->sealed_at);
    free(front);
}
