/*
 * handover: a queue whose jobs move into another queue while calls continue.
 *
 * Most of the time it holds one queue and passes every call on to it. From handover_begin on it holds two: `from`,
 * whose jobs are moved by the owner, and `into`, which receives them and everything new. Until handover_end every
 * call is answered as if both were one:
 *
 *   - A job whose id was generated for its push goes to `into`, once `from` accepts no new jobs. Before that, `from`
 *     could still use the same id, because it would not know of the job in `into`. Calls that name a job (push with
 *     an id of the caller, cancel, reschedule, run, get, redrive of one) go to `from` first, and to `into` only if
 *     `from` has no such job. Jobs move in one direction only, so a job that is not in `from` is in `into` or does
 *     not exist.
 *   - Answers are routed by their lease; takes, lists and figures cover both.
 *   - Purge, delete and redrive of a topic are carried out in `from`, then in `into`, so they miss no job that moves
 *     meanwhile. A list uses the same order and shows no job twice.
 *
 * Requirements on `from`, beyond sharded.h
 *   1. A push of an unknown id, once `from` accepts no new jobs, returns QUEUE_ELSEWHERE.
 *   2. A call on a job that is being moved returns QUEUE_MOVING and does nothing. The call is repeated.
 *
 * One thread, that of the queues. The owner keeps the queues.
 */
#ifndef TARRY_QUEUE_HANDOVER_H
#define TARRY_QUEUE_HANDOVER_H

#include "queue/queue.h"

struct handover;

struct handover_options {
    struct queue *queue; /* the first queue */
    /* Returns whether `from` is certain to accept no new ids. */
    bool (*is_sealed)(void *ctx);
    /* Returns the number that cursors use for the shard of a job, see sharded.h; part 0 is `from`, 1 `into`. */
    uint32_t (*number_of_job)(void *ctx, uint32_t part, struct slice topic, struct slice id);
    /* Finds which of the two issued this lease: 0 `from`, 1 `into`. False: neither. */
    bool (*part_of_lease)(void *ctx, struct slice lease, uint32_t *part);
    /* Sends a reply that comes from no queue, later, not inside this call. */
    void (*refuse)(void *ctx, enum queue_status status, struct queue_reply_to reply_to);
    void *ctx;
    int64_t timeout_ms; /* how long a call waits for a job that is being moved */
};

/* Creates a handover. NULL: out of memory. */
struct handover *handover_new(const struct handover_options *options);
/* Frees a handover. All replies must have arrived, or can no longer arrive. */
void handover_free(struct handover *handover);
struct queue *handover_queue(struct handover *handover);

/* Begins to move jobs. False: out of memory, and nothing has changed. Not while there are two queues. */
bool handover_begin(struct handover *handover, struct queue *into);
/* Ends the move: `from` has no jobs left and gets no further calls. It must live until handover_is_over. */
void handover_end(struct handover *handover);
/* Returns whether every call that began with two queues has ended. Then the owner may free `from`, and
 * handover_begin may be called again. */
bool handover_is_over(struct handover *handover);

/* Returns whether every call that names a job has its reply. */
bool handover_is_quiet(const struct handover *handover);

/* Repeats calls whose jobs were being moved. Returns the inner time of the next required call; INT64_MAX: not
 * needed. */
int64_t handover_step(struct handover *handover, int64_t now_ms);

#endif
