/*
 * waiter: takes that wait, for every queue and every front.
 *
 * The take of a queue never waits. The waiters of a reactor hold the takes that found no job, in order of arrival,
 * and repeat them when the queue reports that a topic has ready jobs. First come, first served: a later take does not
 * overtake a waiting one on the same topic.
 *
 * The caller drives the time: waiters_next_ms returns when to call waiters_expire. One thread: that of the queue
 * handle. Bounds: at most `waiting_max` waiting takes; beyond that, a take that would wait is answered immediately
 * with the available jobs and `refused`.
 */
#ifndef TARRY_QUEUE_WAITER_H
#define TARRY_QUEUE_WAITER_H

#include "queue/queue.h"

struct waiters;

/* Receives the result of a take. `reply` is as from the queue: jobs, or no jobs if the wait ended. Valid during
 * the callback. */
typedef void waiter_done(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused);

struct waiters *waiters_new(struct queue *queue, size_t waiting_max);
/* First answers every waiting take with no jobs. Outstanding replies of the queue must have arrived before. */
void waiters_free(struct waiters *waiters);

/*
 * Takes jobs and waits until `now_ms + wait_ms` for the first one. Answered exactly once, never inside the call.
 * Returns a handle for waiter_cancel, valid until the answer; `owner`/`tag` are passed to `done`. wait_ms 0, or a
 * take of one job by id: calls the queue once, without waiting in line. Out of memory is answered with
 * QUEUE_NO_MEMORY. With thousands of takes in progress, memory may not suffice even for that answer: then it returns 0,
 * and `done` is not called.
 */
uint64_t waiter_take(struct waiters *waiters, const struct queue_take *take, int64_t wait_ms,
                     int64_t now_ms, waiter_done *done, void *owner, uint64_t tag);

/* Cancels a take whose taker is gone: it will not be called back. Jobs that were already on their way are returned
 * to the queue (QUEUE_RETURN). Does nothing for a handle that was answered. */
void waiter_cancel(struct waiters *waiters, uint64_t handle);

/* Returns when the next wait ends, by the inner clock; INT64_MAX: no take waits. */
int64_t waiters_next_ms(const struct waiters *waiters);
/* Answers the takes whose wait ended, and those whose empty answer became due. */
void waiters_expire(struct waiters *waiters, int64_t now_ms);

/* Keeps the watch of a topic for `keep_ms` by `clock` after its last waiting take has left with the last ready job: the next
 * take of this worker then waits without a call of the queue. For a queue whose calls are costly. By default nothing is kept. */
void waiters_keep(struct waiters *waiters, int64_t keep_ms, int64_t (*clock)(void));

/* Answers all waiting takes with no jobs, and lets no new one wait: for a server that shuts down. */
void waiters_drain(struct waiters *waiters);

/* Returns the number of waiting takes, without those of tarry's own topics. */
size_t waiters_count(const struct waiters *waiters);
/* Returns the number of takes that wait for the topic, and in *unnamed how many of them have no
 * consumer's name. */
uint32_t waiters_of_topic(const struct waiters *waiters, struct slice topic, uint32_t *unnamed);

#endif
