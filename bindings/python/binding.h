/*
 * Functions for the Python module: those of tarry.h on a handle that may be closed at any time. Each leaves the interpreter's
 * lock to other threads while it runs. build_binding.py also reads this file and declares these functions to cffi.
 */
#ifndef TARRY_BINDINGS_PYTHON_H
#define TARRY_BINDINGS_PYTHON_H

#include "handle.h"

#include <string.h>

static int binding_open(const struct tarry_options *options, struct handle **out, char *error,
                        size_t error_bytes)
{
    return handle_open(options, out, error, error_bytes);
}

static int binding_close(struct handle *handle)
{
    return handle_close(handle);
}

static void binding_free(struct handle *handle)
{
    handle_free(handle);
}

/*
 * Pushes one job by its most used fields: filling in a struct field by field costs Python more than the push does. Texts with a NUL
 * are invalid names; `id` and `content_type` may be NULL.
 */
static int binding_push_one(struct handle *handle, const char *topic, size_t topic_bytes,
                            const char *id, size_t id_bytes, const char *body, size_t body_bytes,
                            const char *content_type, int64_t delay_ms, struct tarry_result *out)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    if (strlen(topic) != topic_bytes)
        return TARRY_BAD_TOPIC;
    if (id && (!id_bytes || strlen(id) != id_bytes))
        return TARRY_BAD_ID;
    push.topic = topic;
    push.id = id;
    push.body = body;
    push.body_bytes = body_bytes;
    push.content_type = content_type;
    push.delay_ms = delay_ms;
    out->size = sizeof *out;
    HANDLE_CALL(handle, tarry_push(handle->queue, &push, 1, out));
}

static int binding_push(struct handle *handle, const struct tarry_push *items, size_t n,
                        struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_push(handle->queue, items, n, out));
}

static int binding_cancel(struct handle *handle, const struct tarry_change *items, size_t n,
                          struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_cancel(handle->queue, items, n, out));
}

static int binding_reschedule(struct handle *handle, const struct tarry_change *items, size_t n,
                              struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_reschedule(handle->queue, items, n, out));
}

static int binding_run(struct handle *handle, const struct tarry_change *items, size_t n,
                       struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_run(handle->queue, items, n, out));
}

static int binding_close_batch(struct handle *handle, const struct tarry_change *items, size_t n,
                               struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_close_batch(handle->queue, items, n, out));
}

static int binding_list_members(struct handle *handle, struct tarry_members *list, tarry_job **out,
                                size_t *n)
{
    HANDLE_CALL(handle, tarry_list_members(handle->queue, list, out, n));
}

static int binding_await(struct handle *handle, const struct tarry_await *await, int64_t wait_ms,
                         tarry_job **out)
{
    return handle_await(handle, await, wait_ms, out);
}

static uint64_t binding_finished_dropped(struct handle *handle)
{
    uint64_t count = 0;
    if (handle_enter(handle)) {
        count = tarry_finished_dropped(handle->queue);
        handle_leave(handle);
    }
    return count;
}

static int binding_take(struct handle *handle, const struct tarry_take *take, int64_t wait_ms,
                        int pops, tarry_job **out, size_t *n)
{
    return handle_take(handle, take, wait_ms, pops, out, n);
}

static int binding_interrupt(struct handle *handle, uint64_t tag)
{
    return handle_interrupt(handle, tag);
}

/* Interrupts a take that was submitted; such a take waits from the beginning. */
static int binding_interrupt_submitted(struct handle *handle, uint64_t tag)
{
    HANDLE_CALL(handle, (int)tarry_interrupt(handle->queue, tag));
}

static int binding_ack(struct handle *handle, const struct tarry_answer *items, size_t n,
                       struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_ack(handle->queue, items, n, out));
}

static int binding_ack_one(struct handle *handle, const tarry_job *job)
{
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    answer.job = job;
    HANDLE_CALL(handle, tarry_ack(handle->queue, &answer, 1, NULL));
}

static int binding_nack(struct handle *handle, const struct tarry_answer *items, size_t n,
                        struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_nack(handle->queue, items, n, out));
}

static int binding_extend(struct handle *handle, const struct tarry_answer *items, size_t n,
                          struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_extend(handle->queue, items, n, out));
}

static int binding_return(struct handle *handle, const struct tarry_answer *items, size_t n,
                          struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_return(handle->queue, items, n, out));
}

static int binding_again(struct handle *handle, const struct tarry_again *items, size_t n,
                         struct tarry_result *out)
{
    HANDLE_CALL(handle, tarry_again(handle->queue, items, n, out));
}

static int binding_get(struct handle *handle, const char *topic, const char *id, tarry_job **out)
{
    HANDLE_CALL(handle, tarry_get(handle->queue, topic, id, out));
}

static int binding_list(struct handle *handle, struct tarry_list *list, tarry_job **out, size_t *n)
{
    HANDLE_CALL(handle, tarry_list(handle->queue, list, out, n));
}

static int binding_topic_put(struct handle *handle, const char *topic,
                             const struct tarry_settings *settings)
{
    HANDLE_CALL(handle, tarry_topic_put(handle->queue, topic, settings));
}

static int binding_topic_get(struct handle *handle, const char *topic, struct tarry_topic *out)
{
    HANDLE_CALL(handle, tarry_topic_get(handle->queue, topic, out));
}

static int binding_topic_settings(struct handle *handle, const char *topic,
                                  struct tarry_settings *out)
{
    HANDLE_CALL(handle, tarry_topic_settings(handle->queue, topic, out));
}

static int binding_topic_delete(struct handle *handle, const char *topic, uint64_t *affected)
{
    HANDLE_CALL(handle, tarry_topic_delete(handle->queue, topic, affected));
}

static int binding_topic_pause(struct handle *handle, const char *topic, int64_t for_ms)
{
    HANDLE_CALL(handle, tarry_topic_pause(handle->queue, topic, for_ms));
}

static int binding_topic_resume(struct handle *handle, const char *topic)
{
    HANDLE_CALL(handle, tarry_topic_resume(handle->queue, topic));
}

static int binding_topic_purge(struct handle *handle, const char *topic, int state,
                               uint64_t *affected)
{
    HANDLE_CALL(handle, tarry_topic_purge(handle->queue, topic, state, affected));
}

static int binding_topic_redrive(struct handle *handle, const char *topic, const char *id,
                                 uint64_t max, uint64_t *affected)
{
    HANDLE_CALL(handle, tarry_topic_redrive(handle->queue, topic, id, max, affected));
}

static int binding_topics(struct handle *handle, const char *after, struct tarry_topic *out,
                          size_t *n)
{
    HANDLE_CALL(handle, tarry_topics(handle->queue, after, out, n));
}

static int binding_submit(struct handle *handle, const struct tarry_call *call, tarry_done *done,
                          void *owner)
{
    HANDLE_CALL(handle, tarry_submit(handle->queue, call, done, owner));
}

static int binding_fd(struct handle *handle)
{
    if (!handle_enter(handle))
        return -1;
    int fd = tarry_fd(handle->queue);
    handle_leave(handle);
    return fd;
}

static int binding_dispatch(struct handle *handle)
{
    if (!handle_enter(handle))
        return -1;
    int count = tarry_dispatch(handle->queue, 0);
    handle_leave(handle);
    return count;
}

static int64_t binding_now_ms(struct handle *handle)
{
    if (!handle_enter(handle))
        return -1;
    int64_t now_ms = tarry_now_ms(handle->queue);
    handle_leave(handle);
    return now_ms;
}

static int binding_advance(struct handle *handle, int64_t ms)
{
    HANDLE_CALL(handle, tarry_advance(handle->queue, ms));
}

#endif
