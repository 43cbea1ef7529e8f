/*
 * waiter: takes that wait, for every queue and every front.
 *
 * A queue's own take never waits. The waiters of a reactor hold the takes that found nothing, in
 * the order they came, and ask again when the queue says a topic has ready jobs. First come, first
 * served; a later take does not overtake a waiting one on the same topic.
 *
 * Time is run by the caller: waiters_next_ms says when waiters_expire wants to be called. One
 * thread: the queue handle's. Bounds: at most `waiting_max` waiting takes; beyond that a take that
 * would wait is answered at once with what there is and `refused`.
 */
#ifndef TARRY_QUEUE_WAITER_H
#define TARRY_QUEUE_WAITER_H

#include "queue/queue.h"

struct waiters;

/* How a waiting take ends. `reply` as from the queue: jobs, or none when the wait was over. Valid
 * during the callback. */
typedef void waiter_done(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused);

struct waiters *waiters_new(struct queue *queue, size_t waiting_max);
/* Every waiting take is answered (empty) first. Replies of the queue still under way must have come
 * before. */
void waiters_free(struct waiters *waiters);

/*
 * Takes, waiting until `now_ms + wait_ms` for the first job. Answered exactly once, never inside
 * the call. Returns a handle for waiter_cancel, good until the answer; `owner`/`tag` come back with
 * it. wait_ms 0, or a job that is named: asks the queue once, beside the line. Out of memory is answered QUEUE_NO_MEMORY;
 * but with thousands under way there may be no room even for that: then 0, and `done` is not
 * called.
 */
uint64_t waiter_take(struct waiters *waiters, const struct queue_take *take, int64_t wait_ms,
                     int64_t now_ms, waiter_done *done, void *owner, uint64_t tag);

/* The taker is gone: it will not be called back. Jobs that were already on their way to it are
 * returned to the queue (QUEUE_RETURN). Does nothing for a handle that was answered. */
void waiter_cancel(struct waiters *waiters, uint64_t handle);

/* When the next wait is over, inner clock; INT64_MAX when none. */
int64_t waiters_next_ms(const struct waiters *waiters);
/* Answers those whose wait is over, and those whose empty answer became due. */
void waiters_expire(struct waiters *waiters, int64_t now_ms);

/* Answers all waiting takes, empty, and lets no new one wait: for a server that goes down. */
void waiters_drain(struct waiters *waiters);

size_t waiters_count(const struct waiters *waiters);

#endif
