/*
 * mover: takes message move tasks of all queues (move.h) and runs them (move_task.h), several at a
 * time. Runs on the reactor's thread only.
 */
#ifndef TARRY_SQS_MOVER_H
#define TARRY_SQS_MOVER_H

#include "net/reactor.h"
#include "queue/waiter.h"

struct sqs_mover;

/* Creates the mover, before the reactor runs. Returns NULL if memory runs out. */
struct sqs_mover *sqs_mover_new(struct reactor *reactor, struct queue *queue,
                                struct waiters *waiters);
/* Starts taking tasks. */
void sqs_mover_start(struct sqs_mover *mover);
/* Finishes the current batches and returns the tasks. `stopped` runs once, never inside the
 * call. */
void sqs_mover_stop(struct sqs_mover *mover, void (*stopped)(void *ctx), void *ctx);
/* Frees the mover, after the reactor has stopped. Accepts NULL. */
void sqs_mover_free(struct sqs_mover *mover);

#endif
