/*
 * handover: a queue whose jobs go over into another queue while calls on it go on.
 *
 * Most of the time it holds one queue and passes everything straight on. From handover_begin on it
 * holds two: `from`, whose jobs somebody moves, and `into`, where they go and where all that is new
 * goes. Until handover_end every call is answered as if both were one:
 *
 *   - A job whose id was made for its push goes to `into`, once `from` takes no new ones: before that
 *     it would be there under an id that `from` does not know and could give away. Calls that name a job (push with an id of
 *     the caller's, cancel, reschedule, run, get, redrive of one) go to `from` first, and to `into`
 *     only where the job is not known there. A job goes one way only, so whoever is not known in
 *     `from` is in `into`, or nowhere.
 *   - Answers go by their lease; takes, lists and figures over both.
 *   - Purge, delete and redrive of a topic are carried out in `from`, then in `into`: so they miss no
 *     job that moves meanwhile. A list asks in that order, too, and shows no job twice.
 *
 * What it asks of `from`, beyond sharded.h
 *   1. A push of an id that is not known, once `from` takes no new ones: QUEUE_ELSEWHERE.
 *   2. A job that is on its way: QUEUE_MOVING, and nothing was done. The call is repeated.
 *
 * One thread, that of the queues. They are the owner's.
 */
#ifndef TARRY_QUEUE_HANDOVER_H
#define TARRY_QUEUE_HANDOVER_H

#include "queue/queue.h"

struct handover;

struct handover_options {
    struct queue *queue; /* the one it begins with */
    /* Whether `from` is known to take no new ids any more. */
    bool (*is_sealed)(void *ctx);
    /* Names a job's place in cursors, see sharded.h; part 0 is `from`, 1 `into`. */
    uint32_t (*number_of_job)(void *ctx, uint32_t part, struct slice topic, struct slice id);
    /* Which of the two gave this lease: 0 `from`, 1 `into`. False: it is nobody's. */
    bool (*part_of_lease)(void *ctx, struct slice lease, uint32_t *part);
    /* A reply that no queue gives: later, not inside this call. */
    void (*refuse)(void *ctx, enum queue_status status, struct queue_reply_to reply_to);
    void *ctx;
    int64_t patience_ms; /* so long a call waits for a job that is on its way */
};

/* NULL: out of memory. */
struct handover *handover_new(const struct handover_options *options);
/* All replies must have come, or never come any more. */
void handover_free(struct handover *handover);
struct queue *handover_queue(struct handover *handover);

/* False: out of memory, nothing has changed. Not while there are two. */
bool handover_begin(struct handover *handover, struct queue *into);
/* `from` has no job any more, and is not asked again. It must live until handover_is_over. */
void handover_end(struct handover *handover);
/* No call that began while there were two has to do with them any more: then the owner may let go of
 * `from`, and handover_begin may come again. */
bool handover_is_over(struct handover *handover);

/* Every call that names a job has its reply. */
bool handover_is_quiet(const struct handover *handover);

/* Repeats calls whose jobs were on their way. Returns the inner time of the turn it wants next;
 * INT64_MAX: none. */
int64_t handover_turn(struct handover *handover, int64_t now_ms);

#endif
