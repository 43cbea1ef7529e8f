/*
 * answer: what Redis' answers mean: the head that each answer of a script begins with, and what an
 * error asks for. Pure.
 */
#ifndef TARRY_REDIS_ANSWER_H
#define TARRY_REDIS_ANSWER_H

#include "base/slice.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

enum { REDIS_HEAD_BYTES = 19 }; /* at least */

/* Head of an answer, unpacked. `rest` is what follows it. */
struct redis_head {
    int64_t now_ms, next_ms, adjust_ms; /* next: INT64_MAX when there is none */
    bool is_held;                       /* its clock stands still, for tests */
    struct slice next_topic;            /* whose event it is; empty: a lease's, or not known */
    struct slice rest;
};

/* False: not an answer of our scripts. */
bool redis_head_read(const redisReply *reply, struct redis_head *out);

enum redis_verdict {
    REDIS_VERDICT_GREET = 1, /* the library is gone */
    REDIS_VERDICT_CLOCK,     /* the clock is behind */
    REDIS_VERDICT_GONE,      /* Redis lost its data: hello makes the queue anew */
    REDIS_VERDICT_AGAIN,     /* here, after a pause */
    REDIS_VERDICT_MOVED,     /* the endpoint says where; then it is AGAIN */
    REDIS_VERDICT_ELSEWHERE, /* ask where, after a pause */
    REDIS_VERDICT_NO_SPACE,  /* nothing was changed */
    REDIS_VERDICT_REFUSED    /* for good: the call cannot be carried out */
};

/* What an error asks for. */
enum redis_verdict redis_error_judge(const char *error);
/* "MOVED 3999 127.0.0.1:6381", or "ASK …"; no host: that of `asked`. False: it makes no sense. */
bool redis_error_endpoint(const char *error, const struct redis_endpoint *asked,
                          struct redis_endpoint *out);

#endif
