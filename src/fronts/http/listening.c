#include "http/listening.h"

#include "base/error.h"
#include "base/log.h"
#include "http/connection.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

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

void http_listening_close(struct http_front *front)
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

void http_listening_drain(struct http_front *front)
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
        http_listening_close(front);
        return;
    }
    refuse_more(front);
    front->is_settling = true;
    ring_in(front, SETTLE_MS);
}

/* ---- start of listening ---- */

void http_listening_rename(struct http_front *front)
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

int http_listening_open(struct http_front *front, char *error)
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
