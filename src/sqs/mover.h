/*
 * mover: carries out message move tasks (move.h), several at a time, each by one server at a time.
 *
 * A task is a job; whoever holds its lease moves messages, a batch at a time, and no message is lost or doubled,
 * wherever a server dies:
 *
 *   1. takes messages of the source
 *   2. writes down which they are (log:SOURCE)
 *   3. pushes them to where they go, hidden: due in years, with a meta that says which delivery they were
 *   4. acks those of the source
 *   5. lets the copies whose message was acked be due now; cancels the others
 *
 * Whoever takes the task up again looks at the batch that was written down, once the leases of step 1 are over, so
 * that nobody can ack any more: of each message either the source still has it, then a hidden copy goes, or it
 * has not, then the copy is let out. What the source has under its id is the message where it was delivered since
 * and has what the copy has: content type, body and metas. So where somebody pushes another one under the id of
 * one that was just moved, neither is lost; one that is the same to the byte counts as the one that was moved. And
 * a message that somebody cancels or replaces in the source meanwhile may be moved all the same.
 *
 * One thread: the reactor's.
 */
#ifndef TARRY_SQS_MOVER_H
#define TARRY_SQS_MOVER_H

#include "net/reactor.h"
#include "queue/waiter.h"

struct sqs_mover;

/* Before the reactor runs. NULL: out of memory. */
struct sqs_mover *sqs_mover_new(struct reactor *reactor, struct queue *queue,
                                struct waiters *waiters);
/* Takes tasks from now on. */
void sqs_mover_start(struct sqs_mover *mover);
/* Ends batches under way and gives tasks back. `stopped` once, never inside the call. */
void sqs_mover_stop(struct sqs_mover *mover, void (*stopped)(void *ctx), void *ctx);
/* After the reactor has stopped; NULL is fine. */
void sqs_mover_free(struct sqs_mover *mover);

#endif
