/*
 * mover: takes message move tasks of all queues (move.h) and has them carried out (move_task.h), several at a time.
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
