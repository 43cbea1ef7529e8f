/*
 * delivery: a job from its take to the queue's answer: it is sent, with a span if its trace is
 * sampled, and the result is reported to the queue.
 *
 * Answers are collected during a loop iteration and sent together. A delivery belongs to its
 * dispatcher and frees itself.
 */
#ifndef TARRY_DELIVER_DELIVERY_H
#define TARRY_DELIVER_DELIVERY_H

#include "deliver/dispatcher.h"

/* Sends the job; if `is_late`, or if the dispatcher is off by now, gives it back instead. The job
 * has to stay valid until endpoints_flush. */
void delivery_begin(struct dispatcher *dispatcher, const struct queue_job *taken, bool is_late);
/* Sends the answers that were collected in this loop iteration to the queue. */
void deliveries_answer(struct dispatchers *dispatchers);
/* Discards a list of deliveries without answers; the queue ends their leases. */
void deliveries_forget(struct list *deliveries);

#endif
