/*
 * Calls for external event loops: they do not block, and end with a callback from tarry_dispatch.
 */
#include "lib/items.h"
#include "queue/copy.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* A submitted call until its callback has been made. Everything it needs is allocated in
 * advance, so that nothing can fail later. */
struct submitted {
    struct list list; /* in the list of calls to be called back */
    tarry_done *done;
    void *owner;
    int code;
    size_t result_count;
    struct tarry_result *results;
    struct tarry *queue;
    struct lib_items items;         /* in a directory */
    struct directory_take taken;    /* take, pop in a directory */
    struct directory_await awaited; /* await in a directory */
    struct waiter waiter;           /* take, pop, await */
    struct queue_take take;
    struct slice topics[TARRY_TAKE_TOPICS_MAX];
    char *topic_text;
};

static struct submitted *submitted_of(struct waiter *waiter)
{
    return list_entry(waiter, struct submitted, waiter);
}

/* ---- submitting ---- */

static void submitted_free(struct submitted *call)
{
    for (size_t i = 0; i < call->waiter.count; i++)
        memory_job_free(call->waiter.jobs[i]);
    lib_items_free(&call->items);
    free(call->awaited.copy);
    free(call->results);
    free((void *)call->waiter.jobs);
    free(call->topic_text);
    free(call);
}

static void submitted_is_done(struct tarry *queue, struct submitted *call, int code)
{
    call->code = code;
    if (list_is_empty(&queue->done))
        lib_event_set(queue);
    list_add_last(&queue->done, &call->list);
    queue->done_count++;
}

static void submitted_on_end(struct tarry *queue, struct waiter *waiter)
{
    queue->submitted_waiters--;
    submitted_is_done(queue, submitted_of(waiter), waiter->code);
}

/* Copies the names of the topics and the consumer, which belong to the caller and are valid
 * during the call only. */
static bool topics_copy(struct submitted *call)
{
    size_t bytes = 1 + call->take.consumer.len;
    for (size_t i = 0; i < call->take.topic_count; i++)
        bytes += call->topics[i].len;
    char *at = call->topic_text = malloc(bytes);
    if (!at)
        return false;
    for (size_t i = 0; i < call->take.topic_count; i++) {
        memcpy(at, call->topics[i].at, call->topics[i].len);
        call->topics[i].at = at;
        at += call->topics[i].len;
    }
    if (call->take.consumer.len)
        memcpy(at, call->take.consumer.at, call->take.consumer.len);
    call->take.consumer.at = at;
    return true;
}

/* Copies the names of an awaited job, which belong to the caller. */
static void await_names_keep(struct submitted *call)
{
    struct waiter *waiter = &call->waiter;
    char *at = call->topic_text;
    if (waiter->topic.at == at)
        return;
    memcpy(at, waiter->topic.at, waiter->topic.len);
    memcpy(at + waiter->topic.len, waiter->id.at, waiter->id.len);
    waiter->topic.at = at;
    waiter->id.at = at + waiter->topic.len;
}

/* Reads the options of a take and allocates room for its jobs. */
static int take_prepare(struct submitted *call, const struct tarry_call *from)
{
    if (from->n != 1 || !from->items)
        return TARRY_BAD_OPTION;
    int code = lib_read_take(from->items, &call->take, call->topics, &call->waiter.tag);
    if (code)
        return code;
    call->waiter.take = &call->take;
    call->waiter.ended = submitted_on_end;
    call->waiter.pops = from->kind == TARRY_CALL_POP;
    call->waiter.jobs = malloc(call->take.max * sizeof *call->waiter.jobs);
    return call->waiter.jobs && topics_copy(call) ? TARRY_OK : TARRY_NO_MEMORY;
}

static void take_begin(struct tarry *queue, struct submitted *call, int64_t wait_ms)
{
    struct waiter *waiter = &call->waiter;
    int code = lib_waiter_try(queue, waiter);
    if (code || waiter->count || !wait_ms) {
        submitted_is_done(queue, call, code);
        return;
    }
    queue->submitted_waiters++;
    lib_waiter_add(queue, waiter, wait_ms);
}

/* Reads the options of a wait and allocates what it needs. The names are copied, unless those of a push replace them. */
static int await_prepare(struct submitted *call, const struct tarry_call *from)
{
    struct waiter *waiter = &call->waiter;
    if (from->n != 1 || !from->items)
        return TARRY_BAD_OPTION;
    int code = lib_read_await(from->items, waiter);
    if (code)
        return code;
    call->topic_text = malloc(JOB_TOPIC_BYTES_MAX + JOB_ID_BYTES_MAX);
    waiter->jobs = malloc(sizeof *waiter->jobs);
    waiter->ended = submitted_on_end;
    if (!call->topic_text || !waiter->jobs)
        return TARRY_NO_MEMORY;
    if (!waiter->push)
        await_names_keep(call);
    return TARRY_OK;
}

static void await_begin(struct tarry *queue, struct submitted *call, int64_t wait_ms)
{
    struct waiter *waiter = &call->waiter;
    bool waits;
    int code = lib_await_begin(queue, waiter, &waits);
    if (!waits) {
        submitted_is_done(queue, call, code);
        return;
    }
    if (!wait_ms) {
        lib_await_cancel(queue, waiter);
        submitted_is_done(queue, call, lib_await_show(queue, waiter));
        return;
    }
    await_names_keep(call);
    queue->submitted_waiters++;
    lib_waiter_add(queue, waiter, wait_ms);
}

static int items_prepare(struct submitted *call, const struct tarry_call *from)
{
    if (from->n > TARRY_BATCH_MAX || (from->n && !from->items))
        return TARRY_BAD_OPTION;
    call->results = calloc(from->n + 1, sizeof *call->results);
    if (!call->results)
        return TARRY_NO_MEMORY;
    call->results[0].size = sizeof *call->results;
    call->result_count = from->n;
    return TARRY_OK;
}

/* ---- in a directory: a call counts as a caller until it is done, so that a close waits ---- */

static void directory_is_done(struct submitted *call, int code)
{
    struct tarry *queue = call->queue;
    pthread_mutex_lock(&queue->lock);
    submitted_is_done(queue, call, code);
    lib_unlock(queue);
}

static void items_ended(struct directory_call *call)
{
    directory_is_done(list_entry(call, struct submitted, items.call), call->code);
}

static void take_ended(struct directory_call *call)
{
    directory_is_done(list_entry(call, struct submitted, taken.call), call->code);
}

static void await_ended(struct directory_call *call)
{
    directory_is_done(list_entry(call, struct submitted, awaited.call), call->code);
}

/* Sends a wait, with a copy of its push. */
static int directory_submit_await(struct tarry *queue, struct submitted *call, int64_t wait_ms)
{
    struct directory_await *await = &call->awaited;
    *await = (struct directory_await){
        .call.ended = await_ended, .waiter = &call->waiter, .wait_ms = wait_ms};
    int code = lib_await_read_push(await, queue);
    if (code)
        return code;
    await_names_keep(call);
    if (call->waiter.push) {
        const struct command push = {.kind = COMMAND_PUSH, .count = 1, .pushes = &await->push};
        await->copy = copy_command(&push);
        if (!await->copy)
            return TARRY_NO_MEMORY;
        await->push = await->copy->pushes[0];
    }
    directory_post_await(queue->directory, await);
    return TARRY_OK;
}

/* Sends a prepared call. If it returns TARRY_OK, `call` belongs to the queue. */
static int directory_submit(struct tarry *queue, struct submitted *call,
                            const struct tarry_call *asked)
{
    int code = lib_begin(queue);
    if (code)
        return code;
    call->queue = queue;
    if (asked->kind == TARRY_CALL_AWAIT) {
        code = directory_submit_await(queue, call, asked->wait_ms);
        if (code)
            lib_end(queue);
        return code;
    }
    if (asked->kind == TARRY_CALL_TAKE || asked->kind == TARRY_CALL_POP) {
        call->taken = (struct directory_take){
            .call.ended = take_ended, .waiter = &call->waiter, .wait_ms = asked->wait_ms};
        directory_post_take(queue->directory, &call->taken);
        return TARRY_OK;
    }
    code = lib_items_read(&call->items, queue, (enum tarry_call_kind)asked->kind, asked->items,
                          asked->n, call->results);
    if (!code && !call->items.sent) {
        directory_is_done(call, call->items.first);
        return TARRY_OK;
    }
    if (!code && !lib_items_keep(&call->items))
        code = TARRY_NO_MEMORY;
    if (code) {
        lib_end(queue);
        return code;
    }
    call->items.call.ended = items_ended;
    directory_post(queue->directory, &call->items.call);
    return TARRY_OK;
}

int tarry_submit(tarry *queue, const struct tarry_call *from, tarry_done *done, void *owner)
{
    struct tarry_call asked;
    if (!done || !lib_read(&asked, sizeof asked, from) || asked.kind < TARRY_CALL_PUSH ||
        asked.kind > TARRY_CALL_CLOSE_BATCH)
        return TARRY_BAD_OPTION;
    bool awaits = asked.kind == TARRY_CALL_AWAIT;
    bool takes = asked.kind == TARRY_CALL_TAKE || asked.kind == TARRY_CALL_POP;
    struct submitted *call = calloc(1, sizeof *call);
    if (!call)
        return TARRY_NO_MEMORY;
    call->done = done;
    call->owner = owner;
    int code = awaits  ? await_prepare(call, &asked)
               : takes ? take_prepare(call, &asked)
                       : items_prepare(call, &asked);
    if (!code)
        code = queue->directory ? directory_submit(queue, call, &asked) : lib_enter(queue);
    if (code) {
        submitted_free(call);
        return code;
    }
    if (queue->directory)
        return TARRY_OK;
    if (awaits)
        await_begin(queue, call, asked.wait_ms);
    else if (takes)
        take_begin(queue, call, asked.wait_ms);
    else
        submitted_is_done(queue, call,
                          lib_run_items(queue, (enum tarry_call_kind)asked.kind, asked.items,
                                        asked.n, call->results));
    lib_leave(queue);
    return TARRY_OK;
}

/* ---- dispatching ---- */

int tarry_fd(tarry *queue)
{
    if (lib_enter(queue)) {
        errno = ECANCELED;
        return -1;
    }
    int fd = -1;
    if (queue->epoll_fd >= 0 || lib_descriptors_open(queue)) {
        fd = queue->epoll_fd;
        if (!list_is_empty(&queue->done))
            lib_event_set(queue);
        if (queue->submitted_waiters)
            lib_set_timer(queue, memory_next_ms(queue->memory));
    }
    int failed = errno;
    lib_leave(queue);
    errno = failed;
    return fd;
}

/* Makes the callback. The jobs then belong to the callback. */
static void call_back(struct submitted *call)
{
    struct tarry_reply reply = {.size = sizeof reply,
                                .code = call->code,
                                .results = call->results,
                                .result_count = call->result_count,
                                .jobs = (tarry_job *const *)(void *)call->waiter.jobs,
                                .job_count = call->waiter.count};
    call->waiter.count = 0;
    call->done(call->owner, &reply);
    submitted_free(call);
}

static struct submitted *first_done(struct tarry *queue)
{
    if (list_is_empty(&queue->done))
        return NULL;
    struct submitted *call = list_entry(queue->done.next, struct submitted, list);
    list_remove(&call->list);
    queue->done_count--;
    return call;
}

/* Takes the next call that has ended, or NULL. If `most` is negative, it is set to the current
 * number of such calls: calls that callbacks submit wait for the next dispatch, since otherwise
 * this one might never end. */
static int take_done(struct tarry *queue, int count, int *most, struct submitted **call)
{
    int code = lib_enter(queue);
    if (code)
        return code;
    if (!count && queue->timer_ms <= queue->now.inner_ms) {
        lib_event_clear(queue->timer_fd);
        queue->timer_ms = INT64_MAX;
    }
    if (!count && queue->is_wall_watched) { /* re-arm before reading the clock */
        lib_wall_watch_clear(queue->wall_fd);
        lib_wall_watch_set(queue->wall_fd, true);
        queue->now = memory_now(queue->memory);
        memory_advance(queue->memory, queue->now);
    }
    lib_serve(queue);
    if (*most < 0)
        *most = queue->done_count < INT_MAX ? (int)queue->done_count : INT_MAX;
    *call = count < *most ? first_done(queue) : NULL;
    if (list_is_empty(&queue->done))
        lib_event_clear(queue->event_fd);
    lib_leave(queue);
    return TARRY_OK;
}

/* Dispatches callbacks. The thread counts as a caller throughout, so that a close also waits for
 * the callback in progress. */
int tarry_dispatch(tarry *queue, int max)
{
    struct callback_thread self = {.thread = pthread_self()};
    struct submitted *call;
    int count = 0, most = max > 0 ? max : -1, code;
    if (lib_is_forked(queue))
        return -1;
    atomic_fetch_add_explicit(&queue->callers, 1, memory_order_relaxed);
    pthread_mutex_lock(&queue->lock);
    list_add_last(&queue->callback_threads, &self.list);
    pthread_mutex_unlock(&queue->lock);
    while (!(code = take_done(queue, count, &most, &call)) && call) {
        call_back(call);
        count++;
    }
    if (code != TARRY_FORKED) { /* after a fork in a callback, the lock belongs to the parent */
        pthread_mutex_lock(&queue->lock);
        list_remove(&self.list);
        lib_unlock(queue);
    }
    return code && !count ? -1 : count;
}

bool lib_is_in_callback(const struct tarry *queue)
{
    for (const struct list *at = queue->callback_threads.next; at != &queue->callback_threads;
         at = at->next)
        if (pthread_equal(list_entry(at, struct callback_thread, list)->thread, pthread_self()))
            return true;
    return false;
}

/* Frees calls that have ended. All waits have ended before. */
void lib_submitted_free(struct tarry *queue)
{
    struct submitted *call;
    while ((call = first_done(queue))) {
        if (queue->directory && call->waiter.take && !call->waiter.pops)
            directory_return_jobs(queue->directory, call->waiter.jobs, call->waiter.count);
        submitted_free(call);
    }
    lib_descriptors_close(queue);
}
