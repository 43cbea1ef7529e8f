/*
 * problem: how faults, and refusals of the queue, are said: application/problem+json (RFC 9457).
 *
 * One row per problem in problem.c: its stable code, HTTP status and title. Refusals of the queue
 * keep the queue's codes. Pure.
 */
#ifndef TARRY_HTTP_PROBLEM_H
#define TARRY_HTTP_PROBLEM_H

#include "base/buffer.h"
#include "http/fault.h"
#include "queue/queue.h"

const char *http_problem_code(enum http_problem problem);

/* The whole JSON object, and a line end. Returns the HTTP status that goes with it. */
uint16_t http_problem_write(struct buffer *out, const struct http_fault *fault);
/* The same for a refusal of the queue; `detail` NULL: the status's own sentence; `state` 0, `limit`
 * 0: none. */
uint16_t http_refusal_write(struct buffer *out, enum queue_status status, const char *detail,
                            enum job_state state, uint64_t limit);
/* The same for a call for many jobs that stopped after so many of them. */
uint16_t http_refusal_stopped_write(struct buffer *out, enum queue_status status,
                                    const char *detail, uint64_t jobs);

/* One item of many that has this fault: `{"result":"CODE","detail":…}`. */
void http_fault_item_write(struct buffer *out, const struct http_fault *fault);
/* `,"detail":…` with `"limit"` or `"state"` where there is one, for one result of many. */
void http_refusal_members_write(struct buffer *out, enum queue_status status, const char *detail,
                                enum job_state state, uint64_t limit);

/* What the code of a problem or a refusal means, as a JSON object. False: there is no such code. */
bool http_problem_describe(struct buffer *out, struct slice code);

#endif
