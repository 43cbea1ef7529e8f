/*
 * rights: scopes and topic patterns. Pure.
 *
 * Scopes are words separated by commas, as in "push,consume". They are independent: admin does not
 * include the others. Topic patterns are separated by commas as well: "orders", "orders-*" (topics
 * that begin with "orders-"), "*" (all).
 */
#ifndef TARRY_ACCESS_RIGHTS_H
#define TARRY_ACCESS_RIGHTS_H

#include "base/buffer.h"

enum access_scope {
    ACCESS_PUSH = 1,    /* push, cancel and reschedule jobs */
    ACCESS_CONSUME = 2, /* take and answer jobs */
    ACCESS_READ = 4,    /* read jobs, topics, counts and metrics */
    ACCESS_ADMIN = 8,   /* settings, purge, delete, redrive, backup */
    ACCESS_SCOPES_ALL = 15
};
enum {
    ACCESS_SCOPES_TEXT_BYTES = 32,
    ACCESS_TOPICS_TEXT_BYTES_MAX = 2048, /* all patterns of a caller together */
};

/* Returns the name of one scope: "push". */
const char *access_scope_name(unsigned scope);
/* Parses "push,consume", with each scope at most once. Returns 0 if the text is malformed or
 * empty. */
unsigned access_scopes_parse(struct slice text);
/* Writes the scopes in the order above. */
void access_scopes_emit(unsigned scopes, char out[ACCESS_SCOPES_TEXT_BYTES]);

/* Validates "orders-*,mail": at least one pattern, each a topic name, optionally followed by '*',
 * or "*". */
bool access_topics_are_valid(struct slice patterns);
bool access_topics_match(struct slice patterns, struct slice topic);
/* Returns true if one of the patterns is "*". */
bool access_topics_are_all(struct slice patterns);

#endif
