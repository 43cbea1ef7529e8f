/* Waits for the end of a job: blocking here, submitted by submit.c. */
#include "lib/directory.h"
#include "queue/door.h"

/* Returns whether the id of a push is known before: an id that is generated for a `once` is not. */
static bool push_has_name(const struct tarry_push *from)
{
    struct tarry_push push;
    return lib_read(&push, sizeof push, from) && (push.id || !push.once);
}

int lib_read_await(const struct tarry_await *from, struct waiter *waiter)
{
    struct tarry_await await;
    if (!lib_read(&await, sizeof await, from) || await.reserved ||
        (await.push && (await.topic || await.id || !push_has_name(await.push))))
        return TARRY_BAD_OPTION;
    waiter->tag = await.tag;
    waiter->topic = lib_text(await.topic);
    waiter->id = lib_text(await.id);
    waiter->push = await.push;
    if (await.push)
        return TARRY_OK;
    if (!job_topic_is_valid(waiter->topic))
        return TARRY_BAD_TOPIC;
    return job_id_is_valid(waiter->id) ? TARRY_OK : TARRY_BAD_ID;
}

/* ---- in memory; the caller holds the lock ---- */

static void await_ended(struct memory_wait *wait, const struct queue_job *job)
{
    struct waiter *waiter = list_entry(wait, struct waiter, end);
    waiter->jobs[0] = job ? memory_job_copy(job) : NULL;
    waiter->count = waiter->jobs[0] ? 1 : 0;
    waiter->has_ended = true;
    waiter->end_code = waiter->count ? TARRY_OK : job ? TARRY_NO_MEMORY : TARRY_NOT_FOUND;
    waiter->queue->has_ends = true; /* lib_serve wakes it, when the engine has returned */
}

/* Returns whether the job that lib_await_show found may still end. */
static bool is_live(const struct waiter *waiter)
{
    const struct job *job = &waiter->jobs[0]->shown.job;
    return job->state != JOB_FINISHED && job->state != JOB_DEAD;
}

int lib_await_begin(struct tarry *queue, struct waiter *waiter, bool *waits)
{
    int code = TARRY_OK;
    *waits = false;
    waiter->queue = queue;
    waiter->end.ended = await_ended;
    if (waiter->push)
        code = lib_await_push(queue, waiter);
    if (!code)
        code = lib_await_show(queue, waiter);
    if (code || !is_live(waiter))
        return code;
    if (!memory_await(queue->memory, waiter->topic, waiter->id, &waiter->end))
        code = TARRY_NO_MEMORY;
    else
        *waits = true;
    memory_job_free(waiter->jobs[0]);
    waiter->count = 0;
    return code;
}

/* ---- the call ---- */

int lib_await_read_push(struct directory_await *await, struct tarry *queue)
{
    struct waiter *waiter = await->waiter;
    if (!waiter->push)
        return TARRY_OK;
    int code = lib_await_push_read(queue, waiter, &await->push, &await->batch);
    if (code)
        return code;
    if (!await->push.id.len) { /* the wait needs the id before the push */
        pthread_mutex_lock(&queue->lock);
        ulid_write(&queue->ulid, clock_wall_ms_of(&queue->clock), waiter->push_id);
        pthread_mutex_unlock(&queue->lock);
        await->push.id = slice_make(waiter->push_id, ULID_BYTES);
        await->push.id_is_made = true;
    }
    waiter->topic = await->push.topic;
    waiter->id = await->push.id;
    return TARRY_OK;
}

static int directory_await_run(tarry *queue, struct waiter *waiter, int64_t wait_ms)
{
    struct directory_await await = {.waiter = waiter, .wait_ms = wait_ms};
    int code = lib_begin(queue);
    if (code)
        return code;
    code = lib_await_read_push(&await, queue);
    if (!code) {
        directory_post_await(queue->directory, &await);
        code = directory_wait(&await.call);
    }
    lib_end(queue);
    return code;
}

int tarry_await(tarry *queue, const struct tarry_await *from, int64_t wait_ms, tarry_job **out)
{
    struct waiter waiter = {.jobs = (struct memory_job **)(void *)out};
    bool waits;
    *out = NULL;
    int code = lib_read_await(from, &waiter);
    if (!code && queue->directory) {
        code = directory_await_run(queue, &waiter, wait_ms);
        return code;
    }
    if (!code)
        code = lib_enter(queue);
    if (code)
        return code;
    code = lib_await_begin(queue, &waiter, &waits);
    if (waits && wait_ms) {
        *out = NULL;
        lib_waiter_wait(queue, &waiter, wait_ms);
        code = waiter.code;
        lib_unlock(queue);
    } else {
        if (waits)
            lib_await_cancel(queue, &waiter);
        if (waits)
            code = lib_await_show(queue, &waiter);
        lib_leave(queue);
    }
    if (code)
        *out = NULL;
    return code;
}
