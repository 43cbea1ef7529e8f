/*
 * ends: waits for the ends of jobs, with a timeout, for every front. Each wait is for one or many jobs; every job is one
 * call of the queue (COMMAND_AWAIT, queue_push.ended), which is cancelled when the wait ends first.
 *
 * The caller drives the time: ends_next_ms returns when to call ends_expire. One thread: that of the queue handle.
 * Bounds: at most `waiting_max` waits, and ENDS_JOBS_MAX jobs in one of them.
 */
#ifndef TARRY_QUEUE_ENDS_H
#define TARRY_QUEUE_ENDS_H

#include "queue/queue.h"

enum { ENDS_JOBS_MAX = QUEUE_BATCH_MAX };

struct ends;
struct ends_wait; /* a wait; its pointer is valid until `done` is called */

/* One job of a wait. */
struct ends_job {
    struct slice topic, id;
    /* OK: the job ended, as `job` shows (QUEUE_JOB finished or dead). NOT_FOUND: there is no such job. CANCELLED: it has
     * not ended. Any other: the queue refused the wait. */
    enum queue_status status;
    const struct queue_job *job; /* NULL: not ended */
};

/* Receives the end of a wait. Valid during the callback. */
typedef void ends_done(void *owner, uint64_t tag, const struct ends_job *jobs, size_t count);

struct ends *ends_new(struct queue *queue, size_t waiting_max); /* NULL: out of memory */
/* Sets who counts the results and bodies that waits for several jobs keep until their last job has ended. `count` adds the bytes and
 * returns true; or it returns false, and the wait keeps the job without them. Negative bytes are removed. */
void ends_count_bytes(struct ends *ends, bool (*count)(void *ctx, int64_t bytes), void *ctx);
/* Frees the waits without an answer. Replies of the queue must have arrived before. */
void ends_free(struct ends *ends);

struct ends_order {
    const struct queue_find *names;
    size_t count; /* 1..ENDS_JOBS_MAX */
    bool
        any; /* ends with the first job that has ended, else with the last one; unknown jobs do not count */
    int64_t wait_ms;
    ends_done *done; /* called once, never inside the call, unless the wait is cancelled */
    void *owner;
    uint64_t tag;
    const struct queue_caller *caller;
};

/* Begins a wait. NULL: too many wait, or out of memory, and `done` is not called. */
struct ends_wait *ends_wait(struct ends *ends, const struct ends_order *order, int64_t now_ms);

/* Begins a wait for the job of a push that is made next. *ended is the value of queue_push.ended and stays valid until
 * the wait ends. After the reply of the push, ends_pushed must be called, also if `done` was called before: it drops the
 * wait if the job is not awaited, without a call of `done`. */
struct ends_wait *ends_wait_push(struct ends *ends, const struct ends_order *order, int64_t now_ms,
                                 const struct queue_reply_to **ended);
void ends_pushed(struct ends_wait *wait, bool awaits);
/* Instead of ends_pushed if the push had happened before (queue_push_is_known): waits for the job of its id, as ends_wait
 * does. The status EXISTED then means that the job no longer exists. */
void ends_pushed_before(struct ends_wait *wait);

/* Ends a wait now, as at its timeout. A wait whose push has no reply yet ends with that reply. */
void ends_end(struct ends_wait *wait);
/* Ends a wait whose caller is gone: `done` is not called. */
void ends_cancel(struct ends_wait *wait);

/* Returns when the next wait ends, by the inner clock; INT64_MAX: none. */
int64_t ends_next_ms(const struct ends *ends);
void ends_expire(struct ends *ends, int64_t now_ms);
/* Ends all waits now, and lets no new one begin: for a server that shuts down. */
void ends_drain(struct ends *ends);
size_t ends_count(const struct ends *ends);

#endif
