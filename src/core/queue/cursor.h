/*
 * cursor: a place in a list as text. Pure.
 *
 * A list goes by due, push order, and shard: jobs of different shards may agree in the first two.
 * Whoever is given a cursor shows what comes after it in that order; a shard with a higher number
 * than the cursor's therefore still shows its own job of the same due and sequence.
 */
#ifndef TARRY_QUEUE_CURSOR_H
#define TARRY_QUEUE_CURSOR_H

#include "base/slice.h"

#include <stdint.h>

struct queue_cursor { /* after this job; zeroed: the start */
    int64_t due_ms;
    uint64_t sequence;
    uint32_t shard;
};

enum { QUEUE_CURSOR_BYTES_MAX = 64 };

size_t queue_cursor_write(char out[QUEUE_CURSOR_BYTES_MAX], const struct queue_cursor *cursor);
/* False: not one of ours. */
bool queue_cursor_parse(struct slice text, struct queue_cursor *cursor);

#endif
