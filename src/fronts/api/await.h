/* await: calls that wait for the end of jobs: GET of a job with `wait`, a push with `wait`, POST /v1/wait. */
#ifndef TARRY_API_AWAIT_H
#define TARRY_API_AWAIT_H

#include "http/exchange.h"

/* Handles a GET with `wait`. `on_got` answers with the present state of the job (reply of queue_get_finished). */
void api_await_job(struct http_call *call, queue_done *on_got);
/* Makes a push with `wait`. */
void api_await_push(struct http_call *call, struct queue_push *push);
/* Waits for the end of at most ENDS_JOBS_MAX jobs, whose names are valid, for the option `wait` of the call. */
void api_await_jobs(struct http_call *call, const struct queue_find *names, size_t count, bool any);

#endif
