/* jobs: calls for one job (get, reschedule, cancel, run), the list of a topic's jobs, and jobs by their id. */
#ifndef TARRY_API_JOBS_H
#define TARRY_API_JOBS_H

#include "http/exchange.h"

/* Returns whether the store keeps the history of jobs; answers if not. */
bool api_keeps_history(struct http_exchange *exchange);

#endif
