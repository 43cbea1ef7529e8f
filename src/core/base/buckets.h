/*
 * buckets: how many values were at most each of a few bounds: a histogram of Prometheus, 160 bytes.
 * Pure.
 *
 * One thread adds, or several under one lock; any may read meanwhile: what it reads is a moment old
 * at most, and its parts may be of different moments. A zeroed one is a valid empty one. Where
 * values are wanted to 1/32 there is histogram.h, which is 60 times as large.
 */
#ifndef TARRY_BASE_BUCKETS_H
#define TARRY_BASE_BUCKETS_H

#include "base/counter.h"

#include <stddef.h>

enum { BUCKETS_MAX = 18 };

/* What values are counted by: one constant for all buckets of a kind. */
struct bucket_bounds {
    uint64_t units; /* of values that make a second: 1000 for milliseconds; 1: they are no times */
    uint32_t count;
    uint64_t at[BUCKETS_MAX]; /* rising */
};

struct buckets {
    _Atomic uint64_t sum;
    _Atomic uint64_t counts[BUCKETS_MAX + 1]; /* the last one used: beyond all bounds */
};

/* Which of the counts a value belongs to: for one that is added in several places. */
static inline uint32_t buckets_place(const struct bucket_bounds *bounds, uint64_t value)
{
    uint32_t i = 0;
    while (i < bounds->count && value > bounds->at[i])
        i++;
    return i;
}

static inline void buckets_add_to(struct buckets *buckets, uint32_t bucket, uint64_t value)
{
    counter_add(&buckets->sum, value);
    counter_add(&buckets->counts[bucket], 1);
}

static inline void buckets_add(struct buckets *buckets, const struct bucket_bounds *bounds,
                               uint64_t value)
{
    buckets_add_to(buckets, buckets_place(bounds, value), value);
}

/* Both are of the same bounds. */
void buckets_merge(struct buckets *into, const struct buckets *from);

/* How many values there were. */
uint64_t buckets_total(const struct buckets *buckets);

/* The value at or below which `fraction` (0..1) of them lie, as Prometheus guesses it: along a
 * straight line within a bucket. The last bound where it lies beyond; 0 where there are none. */
uint64_t buckets_at(const struct buckets *buckets, const struct bucket_bounds *bounds,
                    double fraction);

#endif
