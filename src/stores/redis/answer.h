/*
 * answer: reads Redis replies: the head that begins each script reply, and the action that an error
 * requires. Pure.
 */
#ifndef TARRY_REDIS_ANSWER_H
#define TARRY_REDIS_ANSWER_H

#include "base/slice.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

enum { REDIS_HEAD_BYTES = 19 }; /* at least */

/* The unpacked head of a script reply. `rest` is what follows it. */
struct redis_head {
    int64_t now_ms, next_ms, adjust_ms; /* next_ms: INT64_MAX if no event is scheduled */
    bool has_mail;           /* the shard has something for other shards (shard_mail.c) */
    bool is_held;            /* the shard's clock stands still, for tests */
    struct slice next_topic; /* of the next event; empty: a lease ends, or unknown */
    struct slice rest;
};

/* Reads the head of a script reply. Returns false if the reply does not come from tarry's
 * scripts. */
bool redis_head_read(const redisReply *reply, struct redis_head *out);

enum redis_decision {
    REDIS_DECISION_GREET = 1, /* the library is missing */
    REDIS_DECISION_CLOCK,     /* the clock is behind */
    REDIS_DECISION_GONE,      /* Redis lost its data: hello recreates the queue */
    REDIS_DECISION_AGAIN,     /* retry here, after a pause */
    REDIS_DECISION_MOVED,     /* the endpoint names the new master; then handle as AGAIN */
    REDIS_DECISION_ELSEWHERE, /* look up the master, after a pause */
    REDIS_DECISION_NO_SPACE,  /* nothing was changed */
    REDIS_DECISION_REFUSED    /* permanent: the call cannot be carried out */
};

/* Returns the action that an error requires. */
enum redis_decision redis_error_classify(const char *error);
/* Reads the endpoint from "MOVED 3999 127.0.0.1:6381" or "ASK …". If the host is empty, it is the
 * host of `asked`. Returns false if the text is malformed. */
bool redis_error_endpoint(const char *error, const struct redis_endpoint *asked,
                          struct redis_endpoint *out);

#endif
