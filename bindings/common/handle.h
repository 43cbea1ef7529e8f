/*
 * A handle is a queue of libtarry as a binding holds it; no order of calls on any threads can misuse it.
 *
 * tarry.h requires two things of its callers that garbage-collected languages cannot promise: that no call begins once the queue
 * is being closed, and that an interruption comes after the take has begun to wait. With a handle, a call that comes too late
 * returns TARRY_STOPPING, and an interruption is repeated until its take has ended or does not exist.
 *
 * Every function may be called on any thread, except handle_free, which is the last call. In a forked child calls return
 * TARRY_FORKED, and closing does not touch the parent's queue.
 */
#ifndef TARRY_BINDINGS_HANDLE_H
#define TARRY_BINDINGS_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tarry.h>
#include <time.h>
#include <unistd.h>

/* A take, or a wait for the end of a job, that may wait; on its caller's stack. */
struct handle_wait {
    uint64_t tag;
    struct handle_wait *next, **place;
};

struct handle {
    tarry *queue;
    atomic_uint callers;
    atomic_bool is_closed;
    pid_t pid;
    pthread_mutex_t lock; /* of the waits */
    struct handle_wait *waits;
};

/* Returns TARRY_OK and *out, or a code, with the reason in words in `error`. */
static inline int handle_open(const struct tarry_options *options, struct handle **out, char *error,
                              size_t error_bytes)
{
    struct handle *handle = calloc(1, sizeof *handle);
    *out = NULL;
    if (!handle)
        return TARRY_NO_MEMORY;
    int code = tarry_open(options, &handle->queue, error, error_bytes);
    if (code) {
        free(handle);
        return code;
    }
    pthread_mutex_init(&handle->lock, NULL);
    handle->pid = getpid();
    *out = handle;
    return TARRY_OK;
}

/* False: it is closed, and nothing is to be called. True: handle_leave has to follow. */
static inline bool handle_enter(struct handle *handle)
{
    atomic_fetch_add(&handle->callers, 1);
    if (!atomic_load(&handle->is_closed))
        return true;
    atomic_fetch_sub(&handle->callers, 1);
    return false;
}

static inline void handle_leave(struct handle *handle)
{
    atomic_fetch_sub(&handle->callers, 1);
}

/* The body of a function that answers with a code: the call, where the queue is open. */
#define HANDLE_CALL(handle, call)                                                                  \
    do {                                                                                           \
        if (!handle_enter(handle))                                                                 \
            return TARRY_STOPPING;                                                                 \
        int code_of_call = (call);                                                                 \
        handle_leave(handle);                                                                      \
        return code_of_call;                                                                       \
    } while (0)

static inline void handle_wait_add(struct handle *handle, struct handle_wait *wait)
{
    pthread_mutex_lock(&handle->lock);
    wait->next = handle->waits;
    wait->place = &handle->waits;
    if (wait->next)
        wait->next->place = &wait->next;
    handle->waits = wait;
    pthread_mutex_unlock(&handle->lock);
}

static inline void handle_wait_remove(struct handle *handle, struct handle_wait *wait)
{
    pthread_mutex_lock(&handle->lock);
    *wait->place = wait->next;
    if (wait->next)
        wait->next->place = wait->place;
    pthread_mutex_unlock(&handle->lock);
}

/* Enters the queue for a call that may wait. Returns false if it is closed. */
static inline bool handle_wait_begin(struct handle *handle, struct handle_wait *wait,
                                     int64_t wait_ms)
{
    if (!handle_enter(handle))
        return false;
    if (wait_ms)
        handle_wait_add(handle, wait);
    return true;
}

/* Leaves the queue and returns the code of the call. */
static inline int handle_wait_end(struct handle *handle, struct handle_wait *wait, int64_t wait_ms,
                                  int code)
{
    if (wait_ms && code != TARRY_FORKED)
        handle_wait_remove(handle, wait);
    if (code == TARRY_INTERRUPTED && atomic_load(&handle->is_closed))
        code = TARRY_STOPPING;
    handle_leave(handle);
    return code;
}

/* Wraps tarry_take and tarry_pop. A waiting call can be interrupted by its tag, which is unique. */
static inline int handle_take(struct handle *handle, const struct tarry_take *take, int64_t wait_ms,
                              bool pops, tarry_job **out, size_t *n)
{
    struct handle_wait wait = {.tag = take->tag};
    *n = 0;
    if (!handle_wait_begin(handle, &wait, wait_ms))
        return TARRY_STOPPING;
    int code = (pops ? tarry_pop : tarry_take)(handle->queue, take, wait_ms, out, n);
    return handle_wait_end(handle, &wait, wait_ms, code);
}

/* Wraps tarry_await, in the same way. */
static inline int handle_await(struct handle *handle, const struct tarry_await *await,
                               int64_t wait_ms, tarry_job **out)
{
    struct handle_wait wait = {.tag = await->tag};
    *out = NULL;
    if (!handle_wait_begin(handle, &wait, wait_ms))
        return TARRY_STOPPING;
    int code = tarry_await(handle->queue, await, wait_ms, out);
    return handle_wait_end(handle, &wait, wait_ms, code);
}

static inline bool handle_has_wait(struct handle *handle, uint64_t tag)
{
    pthread_mutex_lock(&handle->lock);
    const struct handle_wait *wait = handle->waits;
    while (wait && wait->tag != tag)
        wait = wait->next;
    pthread_mutex_unlock(&handle->lock);
    return wait;
}

/* Ends the take with this tag, even if it has begun but does not wait yet. Returns false if the tag is unknown. */
static inline bool handle_interrupt(struct handle *handle, uint64_t tag)
{
    const struct timespec pause = {.tv_nsec = 100000};
    bool was_there = false;
    if (!handle_enter(handle))
        return false;
    while (handle_has_wait(handle, tag) && !(was_there = tarry_interrupt(handle->queue, tag)))
        nanosleep(&pause, NULL);
    handle_leave(handle);
    return was_there;
}

/* Ends all takes that wait, lets other calls end, and closes. Again: nothing. */
static inline int handle_close(struct handle *handle)
{
    const struct timespec pause = {.tv_nsec = 100000};
    if (handle->pid != getpid())
        return TARRY_FORKED;
    if (atomic_exchange(&handle->is_closed, true))
        return TARRY_OK;
    while (atomic_load(&handle->callers)) {
        pthread_mutex_lock(&handle->lock);
        for (struct handle_wait *wait = handle->waits; wait; wait = wait->next)
            tarry_interrupt(handle->queue, wait->tag);
        pthread_mutex_unlock(&handle->lock);
        nanosleep(&pause, NULL);
    }
    int code = tarry_close(handle->queue);
    handle->queue = NULL;
    return code;
}

/* Closes the queue if it is still open and frees the handle. No other thread may use it. */
static inline void handle_free(struct handle *handle)
{
    if (!handle || handle_close(handle) == TARRY_FORKED)
        return;
    pthread_mutex_destroy(&handle->lock);
    free(handle);
}

#endif
