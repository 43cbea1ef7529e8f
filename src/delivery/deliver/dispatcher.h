/*
 * dispatcher: the delivery of a topic. It takes the topic's due jobs, passes them to their
 * endpoints, and reports the results to the queue.
 *
 * A dispatcher has at most one take outstanding, for as many jobs as its window and its rate allow.
 * Taken jobs are sent immediately or given back, never stored. The answers of all dispatchers go to
 * the queue together, once per loop iteration. An answer that the queue could not accept is retried
 * until the lease ends. So no job is lost, and a job is only delivered twice if its lease ended
 * first.
 *
 * A topic with an extension but without delivery has a dispatcher too, so that its end is noticed.
 *
 * Used on the reactor's thread. `table` and everything that metrics read are protected by `lock`.
 */
#ifndef TARRY_DELIVER_DISPATCHER_H
#define TARRY_DELIVER_DISPATCHER_H

#include "deliver/dispatchers.h"

/* Returns false when out of memory; dispatchers_fini may also be called then. */
bool dispatchers_init(struct dispatchers *dispatchers, const struct dispatchers_env *env);
/* Frees everything, after the reactor has stopped and the endpoints are closed. */
void dispatchers_fini(struct dispatchers *dispatchers);

/* Sets the topic's setting `deliver` to this JSON; if empty, the topic no longer delivers.
 * Deliveries in progress end with the old setting. `is_gone` is true if the topic has no extension
 * or was deleted. Returns the topic's dispatcher, or NULL if it is not needed or when out of
 * memory. */
struct dispatcher *dispatchers_follow(struct dispatchers *dispatchers, struct slice topic,
                                      struct slice json, bool is_gone);
/* Applies a new policy file. A dispatcher that the policy does not allow to deliver takes no jobs
 * and logs this: all its jobs would fail, and another server may have the right policy. */
void dispatchers_evaluate(struct dispatchers *dispatchers);
/* Makes all dispatchers look for work at the end of this loop iteration, because the queue's clock
 * was moved. */
void dispatchers_look_again(struct dispatchers *dispatchers);
/* Stops taking jobs. */
void dispatchers_halt(struct dispatchers *dispatchers);
/* Returns true if nothing is in progress. After dispatchers_halt it stays true. */
static inline bool dispatchers_are_idle(const struct dispatchers *dispatchers)
{
    return dispatchers->answering == 0 && dispatchers->unanswered == 0;
}

#endif
