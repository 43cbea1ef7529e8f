/*
 * rights: scopes and topic patterns. Pure.
 *
 * Scopes are words with commas between, "push,consume"; each is its own, admin holds none of the
 * others. Topic patterns likewise: "orders", "orders-*" (what begins with "orders-"), "*" (all).
 */
#ifndef TARRY_ACCESS_RIGHTS_H
#define TARRY_ACCESS_RIGHTS_H

#include "base/buffer.h"

enum access_scope {
    ACCESS_PUSH = 1,    /* push, cancel and reschedule jobs */
    ACCESS_CONSUME = 2, /* take jobs and answer them */
    ACCESS_READ = 4,    /* look at jobs, topics, counts and metrics */
    ACCESS_ADMIN = 8,   /* settings, purge, delete, redrive, backup */
    ACCESS_SCOPES_ALL = 15
};
enum {
    ACCESS_SCOPES_TEXT_BYTES = 32,
    ACCESS_TOPICS_TEXT_BYTES_MAX = 2048, /* all patterns of a caller */
};

/* Of one scope: "push". */
const char *access_scope_name(unsigned scope);
/* "push,consume" and nothing else, each at most once; 0: it is malformed or empty. */
unsigned access_scopes_parse(struct slice text);
/* In the order above. */
void access_scopes_emit(unsigned scopes, char out[ACCESS_SCOPES_TEXT_BYTES]);

/* "orders-*,mail": each a topic's name, maybe with '*' behind it, or "*"; at least one. */
bool access_topics_are_valid(struct slice patterns);
bool access_topics_match(struct slice patterns, struct slice topic);
/* Whether one of them is "*". */
bool access_topics_are_all(struct slice patterns);

#endif
