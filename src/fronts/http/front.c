/* A front: its listeners, its loop iterations and its end; and the state that all fronts of a
 * server share. */
#include "http/connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "http/listening.h"
#include "http/stream.h"
#include "trace/carry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
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
    code = http_listening_open(front, error);
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
    http_listening_rename(front);
    http_connections_hurry(front);
}

void http_front_drain(struct http_front *front, void (*drained)(void *ctx), void *ctx)
{
    front->is_draining = true;
    front->drained = drained;
    front->drained_ctx = ctx;
    http_listening_drain(front);
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
    http_listening_close(front);
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
