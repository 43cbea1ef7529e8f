/*
 * cursor: a place in a list as text. Pure.
 *
 * A list is ordered by due, push order and shard, since jobs of different shards may have the same due and sequence.
 * A part that receives a cursor lists the jobs after it in that order. So a shard with a higher number than the
 * cursor's still lists its own job of the same due and sequence.
 *
 * The due times of a list are those of the wall clock. If that clock is set back between two pages, jobs with a delay
 * move to earlier times, and those behind the cursor would be left out. So a cursor has the difference of the clocks of
 * its page.
 */
#ifndef TARRY_QUEUE_CURSOR_H
#define TARRY_QUEUE_CURSOR_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct queue_cursor { /* a position after this job; zeroed: the start */
    int64_t due_ms;
    uint64_t sequence;
    uint32_t shard;
    bool has_skew;
    int64_t skew_ms; /* wall minus inner time at its page */
};

enum { QUEUE_CURSOR_BYTES_MAX = 64 };

size_t queue_cursor_write(char out[QUEUE_CURSOR_BYTES_MAX], const struct queue_cursor *cursor);
/* Parses a cursor. False: not a cursor of this format. */
bool queue_cursor_parse(struct slice text, struct queue_cursor *cursor);
/* Returns whether a job comes after the cursor in the order of a list. */
bool queue_cursor_is_before(const struct queue_cursor *cursor, int64_t due_ms, uint64_t sequence,
                            uint32_t shard);
/* Corrects the cursor of a list after a change of the wall clock; `skew_ms` is the present wall time minus inner time. No job is left out; jobs with an absolute due time, and some at its edge, may be listed twice. */
void queue_cursor_follow(struct queue_cursor *cursor, int64_t skew_ms, bool is_finished);

#endif
