/* delivery: a job from its take to the queue's answer: sent, and the queue told what became of it.
 * It belongs to its dispatcher and ends by itself. */
#ifndef TARRY_DELIVER_DELIVERY_H
#define TARRY_DELIVER_DELIVERY_H

#include "deliver/dispatcher.h"

/* Hands the job to where it goes; with `is_late`, or where the dispatcher is off by now, gives it
 * back. The job must stay until endpoints_flush. */
void delivery_begin(struct dispatcher *dispatcher, const struct queue_job *taken, bool is_late);
/* Tells the queue what became of jobs in this turn. */
void deliveries_answer(struct dispatchers *dispatchers);
/* Of a list of them nothing is told any more: the queue ends the leases. */
void deliveries_forget(struct list *deliveries);

#endif
