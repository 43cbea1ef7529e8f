/*
 * problem: what can be wrong with a request, and how it is said: application/problem+json (RFC
 * 9457).
 *
 * One row per problem in problem.c: its stable code, HTTP status and title. Refusals of the queue
 * keep the queue's codes. Pure.
 */
#ifndef TARRY_HTTP_PROBLEM_H
#define TARRY_HTTP_PROBLEM_H

#include "base/buffer.h"
#include "queue/queue.h"

enum http_problem {
    PROBLEM_NONE = 0,
    PROBLEM_BAD_REQUEST,
    PROBLEM_BAD_FRAMING,
    PROBLEM_BAD_OPTION,
    PROBLEM_UNKNOWN_OPTION,
    PROBLEM_OPTION_TWICE,
    PROBLEM_OPTION_CLASH,
    PROBLEM_OPTION_MISSING,
    PROBLEM_BAD_META,
    PROBLEM_BAD_JSON,
    PROBLEM_BAD_ITEM,
    PROBLEM_DELIVERY_IS_OFF,
    PROBLEM_BAD_DELIVERY,
    PROBLEM_BAD_CALLBACK,
    PROBLEM_CROSS_SITE,
    PROBLEM_NO_SUCH_PATH,
    PROBLEM_NO_TARGET,
    PROBLEM_METHOD_NOT_ALLOWED,
    PROBLEM_REQUEST_TIMEOUT,
    PROBLEM_BODY_TOO_BIG,
    PROBLEM_TOO_MANY_ITEMS,
    PROBLEM_TARGET_TOO_LONG,
    PROBLEM_CODING_UNKNOWN,
    PROBLEM_HOST_UNKNOWN,
    PROBLEM_EXPECTATION_UNKNOWN,
    PROBLEM_HEADER_TOO_BIG,
    PROBLEM_TRANSFER_CODING_UNKNOWN,
    PROBLEM_NO_DELIVERY,
    PROBLEM_NO_BACKUP,
    PROBLEM_VERSION_UNKNOWN,
    PROBLEM_TOO_MANY_CONNECTIONS,
    PROBLEM_TOO_MANY_WAITING,
    PROBLEM_TOO_MANY_SWEEPS,
    PROBLEM_TOO_MANY_BACKUPS,
    PROBLEM_TOO_MUCH_MEMORY,
    PROBLEM_CONNECTION_ENDED,
    PROBLEM_NOT_READY,
    PROBLEM_NO_MEMORY,
    PROBLEM_COUNT
};

/* A problem met: which, the limit where one was met (0: none), and a sentence that says what to do.
 */
struct http_fault {
    enum http_problem problem;
    uint64_t limit;
    char detail[512];
};

/* Returns false, so that a parser can end with it. */
bool http_fault_set(struct http_fault *fault, enum http_problem problem, uint64_t limit,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* For untrusted text in details: at most `max` bytes, printable ASCII, the rest as '?'. Up to 4 in
 * one expression. */
const char *http_quotable(struct slice text, size_t max);

uint16_t http_problem_status(enum http_problem problem);
const char *http_problem_code(enum http_problem problem);
const char *http_problem_title(enum http_problem problem);

/* The HTTP status of a queue's refusal. */
uint16_t http_refusal_status(enum queue_status status);
const char *http_refusal_title(enum queue_status status);

/* The whole JSON object, and a line end. */
void http_problem_write(struct buffer *out, const struct http_fault *fault);
/* The same for a refusal of the queue; `detail` NULL: the status's own sentence; `state` 0, `limit`
 * 0: none. */
void http_refusal_write(struct buffer *out, enum queue_status status, const char *detail,
                        enum job_state state, uint64_t limit);

/* `,"detail":"…"` with `"limit"` or `"state"` where there is one, for one item of many. */
void http_fault_members_write(struct buffer *out, const struct http_fault *fault);
void http_refusal_members_write(struct buffer *out, enum queue_status status, const char *detail,
                                enum job_state state, uint64_t limit);

#endif
