/*
 * cursor: a place in a list as text. Pure.
 *
 * A list is ordered by due, push order and shard, since jobs of different shards may have the same due and sequence.
 * A part that receives a cursor lists the jobs after it in that order. So a shard with a higher number than the
 * cursor's still lists its own job of the same due and sequence.
 */
#ifndef TARRY_QUEUE_CURSOR_H
#define TARRY_QUEUE_CURSOR_H

#include "base/slice.h"

#include <stdint.h>

struct queue_cursor { /* a position after this job; zeroed: the start */
    int64_t due_ms;
    uint64_t sequence;
    uint32_t shard;
};

enum { QUEUE_CURSOR_BYTES_MAX = 64 };

size_t queue_cursor_write(char out[QUEUE_CURSOR_BYTES_MAX], const struct queue_cursor *cursor);
/* Parses a cursor. False: not a cursor of this format. */
bool queue_cursor_parse(struct slice text, struct queue_cursor *cursor);

#endif
