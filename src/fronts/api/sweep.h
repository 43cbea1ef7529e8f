/* sweep: one change of all jobs of a topic that match the filter of a call. Answers with the number of jobs when the
 * sweep (queue/sweep.h) has ended. */
#ifndef TARRY_API_SWEEP_H
#define TARRY_API_SWEEP_H

#include "http/exchange.h"
#include "queue/sweep.h"

/* Starts the sweep of a call. `order` has the verb, the scope, and the new due and priority; topic, filter, maximum and
 * dry run come from the call. Answers the call before or after it returns. */
void api_sweep(struct http_call *call, struct sweep_order order);

/* Answers with the number of jobs that were changed, or would be (is_dry_run of the exchange), and of those that were looked at. */
void api_sweep_answer(struct http_exchange *exchange, uint64_t jobs, uint64_t seen,
                      bool is_complete);

/* Returns whether the body is empty; else answers with a fault. A body without ids must not change all jobs. */
bool api_sweep_has_no_body(struct http_call *call);

#endif
