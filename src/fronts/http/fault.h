/*
 * fault: an error in a request, at any level of this room: the problem, the exceeded limit if there
 * is one, and a sentence for the user. problem.h defines its format. Pure.
 */
#ifndef TARRY_HTTP_FAULT_H
#define TARRY_HTTP_FAULT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

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
    PROBLEM_RESULT_TOO_BIG,
    PROBLEM_BAD_ITEM,
    PROBLEM_DELIVERY_IS_OFF,
    PROBLEM_BAD_DELIVERY,
    PROBLEM_BAD_CALLBACK,
    PROBLEM_BAD_SCHEDULE,
    PROBLEM_UNAUTHORIZED,
    PROBLEM_FORBIDDEN,
    PROBLEM_CROSS_SITE,
    PROBLEM_NO_SUCH_PATH,
    PROBLEM_NO_TARGET,
    PROBLEM_METHOD_NOT_ALLOWED,
    PROBLEM_FIFO_QUEUE,
    PROBLEM_NOT_IDLE,
    PROBLEM_OTHER_OWNER,
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
    PROBLEM_NO_TEST_CLOCK,
    PROBLEM_VERSION_UNKNOWN,
    PROBLEM_TOO_MANY_REQUESTS,
    PROBLEM_TOO_MANY_CONNECTIONS,
    PROBLEM_TOO_MANY_WAITING,
    PROBLEM_TOO_MANY_STREAMS,
    PROBLEM_TOO_MANY_SWEEPS,
    PROBLEM_TOO_MANY_BACKUPS,
    PROBLEM_TOO_MUCH_MEMORY,
    PROBLEM_CONNECTION_ENDED,
    PROBLEM_NOT_READY,
    PROBLEM_ACCESS_UNAVAILABLE,
    PROBLEM_NO_MEMORY,
    PROBLEM_COUNT
};

/* An error: the problem, the exceeded limit or 0, and a sentence that describes what to do. */
struct http_fault {
    enum http_problem problem;
    uint64_t limit;
    const char *challenge;  /* value of WWW-Authenticate, or NULL */
    const char *limit_name; /* name of the exceeded limit, or NULL */
    uint32_t retry_s;       /* value of Retry-After, or 0 */
    int refusal;            /* enum access_refusal if the caller was refused, else 0 */
    char detail[512];
};

/* Sets *fault and returns false, so that a parser can return the result. */
bool http_fault_set(struct http_fault *fault, enum http_problem problem, uint64_t limit,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Returns untrusted text for use in details: at most `max` bytes of printable ASCII, other bytes as
 * '?'. Valid for up to 4 calls in one expression. */
const char *http_quotable(struct slice text, size_t max);

#endif
