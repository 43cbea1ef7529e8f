/*
 * dead_letter: the rules for a topic's dead jobs: the object `dead_letter` of its settings, parsed.
 * Pure.
 *
 *   {"keep": {"count": 10000, "age": "30d", "bytes": "100MiB"},   above it the oldest are dropped
 *    "to": "orders.dead",            another topic, or a URL to which they are delivered
 *    "alert": {"to": "https://ops.example/hook", "every": "10m"}}
 *                                    or {"command": "pager", …}, a command of the policy file
 *
 * All members are optional. Without `to`, dead jobs stay in the topic; without `keep`, they are
 * never dropped.
 */
#ifndef TARRY_DELIVER_DEAD_LETTER_H
#define TARRY_DELIVER_DEAD_LETTER_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum { ALERT_EVERY_MS = 10 * 60 * 1000, ALERT_EVERY_MS_MIN = 1000, DEAD_LETTER_AGE_MS_MIN = 1000 };

/* The rules; all zero if not set. The struct owns the texts. */
struct dead_letter {
    uint64_t keep_count, keep_bytes; /* 0: no limit */
    int64_t keep_ms;                 /* counted from the end of the last attempt; 0: no limit */
    char *to_topic, *to_url;         /* at most one is set */
    char *alert_to, *alert_command;  /* at most one is set */
    int64_t alert_every_ms;
};

/* Parses the object `json`. Returns false with `error` (DELIVER_ERROR_BYTES), which names the
 * member and a valid value; *out is then zeroed. */
bool dead_letter_parse(struct slice json, struct dead_letter *out, char *error);
void dead_letter_fini(struct dead_letter *dead_letter);

#endif
