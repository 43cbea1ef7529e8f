/*
 * problem: formats faults and refusals of the queue as application/problem+json (RFC 9457).
 *
 * problem.c has one row per problem: its stable code, HTTP status and title. Refusals of the queue
 * keep the codes of the queue. Pure.
 */
#ifndef TARRY_HTTP_PROBLEM_H
#define TARRY_HTTP_PROBLEM_H

#include "base/buffer.h"
#include "http/fault.h"
#include "queue/queue.h"

const char *http_problem_code(enum http_problem problem);
uint16_t http_problem_status(enum http_problem problem);

/* A refused call or item: what a problem contains, for other formats. */
struct http_refusal {
    const char *code, *detail; /* `detail` may be in `text` */
    uint16_t status;           /* of HTTP */
    uint64_t limit;            /* the exceeded limit, or 0 */
    const char *limit_name;    /* its name, or NULL */
    enum job_state state;      /* of the job, or 0 */
    uint32_t retry_s;          /* when to try again, or 0 */
    char text[200];
};
void http_refusal_of_fault(struct http_refusal *out, const struct http_fault *fault);
/* The same for a refusal of the queue. `detail` NULL: the sentence of the status. */
void http_refusal_of(struct http_refusal *out, enum queue_status status, const char *detail,
                     uint64_t limit);

/* Writes the whole JSON object and a newline. Returns the matching HTTP status. */
uint16_t http_problem_write(struct buffer *out, const struct http_fault *fault);
/* The same for a refusal of the queue. `detail` NULL: the sentence of the status. `state` and
 * `limit` are omitted if 0. */
uint16_t http_refusal_write(struct buffer *out, enum queue_status status, const char *detail,
                            enum job_state state, uint64_t limit);
/* The same for a call for many jobs that stopped after some of them. */
uint16_t http_refusal_stopped_write(struct buffer *out, enum queue_status status,
                                    const char *detail, uint64_t jobs);

/* Writes the result of one item with a fault: `{"result":"CODE","detail":…}`. */
void http_fault_item_write(struct buffer *out, const struct http_fault *fault);
/* Writes `,"detail":…`, and `"limit"` or `"state"` if present, for one result of many. */
void http_refusal_members_write(struct buffer *out, enum queue_status status, const char *detail,
                                enum job_state state, uint64_t limit);

/* Writes the meaning of a problem or refusal code as a JSON object. Returns false if the code does
 * not exist. */
bool http_problem_describe(struct buffer *out, struct slice code);
/* Writes the meaning of all codes as a JSON object with a list. */
void http_problems_list(struct buffer *out);

#endif
