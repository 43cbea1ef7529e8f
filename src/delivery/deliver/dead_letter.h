/*
 * dead_letter: what a topic wants done with jobs that gave up: the object `dead_letter` of its
 * settings, read. Pure.
 *
 *   {"keep": {"count": 10000, "age": "30d", "bytes": "100MiB"},   beyond it the oldest are dropped
 *    "to": "orders.dead",            another topic; or a URL, where it is delivered once more
 *    "alert": {"to": "https://ops.example/hook", "every": "10m"}}
 *                                    or {"command": "pager", …}, a command of the policy file
 *
 * All are optional. Without `to` dead jobs stay; without `keep` they stay for ever.
 */
#ifndef TARRY_DELIVER_DEAD_LETTER_H
#define TARRY_DELIVER_DEAD_LETTER_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum { ALERT_EVERY_MS = 10 * 60 * 1000, ALERT_EVERY_MS_MIN = 1000, DEAD_LETTER_AGE_MS_MIN = 1000 };

/* Zeroed: nothing. Text is own memory. */
struct dead_letter {
    uint64_t keep_count, keep_bytes; /* 0: no limit */
    int64_t keep_ms;                 /* 0: for ever; from the end of the last attempt */
    char *to_topic, *to_url;         /* one of them or none */
    char *alert_to, *alert_command;  /* one of them or none */
    int64_t alert_every_ms;
};

/* `json`: the object. False: `error` (DELIVER_ERROR_BYTES) names the member and what would be
 * right; *out is zeroed. */
bool dead_letter_parse(struct slice json, struct dead_letter *out, char *error);
void dead_letter_fini(struct dead_letter *dead_letter);

#endif
