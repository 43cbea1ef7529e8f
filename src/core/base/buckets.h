/*
 * buckets: a Prometheus histogram: the number of values up to each of a few bounds. 160 bytes.
 * Pure.
 *
 * One thread adds, or several threads under one lock. Any thread may read at the same time: a value
 * that it reads is slightly old at most, and the parts may be from different moments. A zeroed
 * histogram is valid and empty. For a precision of 1/32 use histogram.h, which is 60 times as
 * large.
 */
#ifndef TARRY_BASE_BUCKETS_H
#define TARRY_BASE_BUCKETS_H

#include "base/counter.h"

#include <stddef.h>

enum { BUCKETS_MAX = 18 };

/* The bounds that values are counted by: one constant for all buckets of a kind. */
struct bucket_bounds {
    uint64_t units; /* values per second: 1000 for milliseconds; 1 if the values are not times */
    uint32_t count;
    uint64_t at[BUCKETS_MAX]; /* in ascending order */
};

struct buckets {
    _Atomic uint64_t sum;
    _Atomic uint64_t counts[BUCKETS_MAX + 1]; /* the last one used counts values above all bounds */
};

/* Returns the index of the count that a value belongs to. For values that are added in several
 * places. */
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

/* Adds the counts of `from` to `into`. Both must have the same bounds. */
void buckets_merge(struct buckets *into, const struct buckets *from);

/* Returns the number of values. */
uint64_t buckets_total(const struct buckets *buckets);

/* Estimates the value at or below which `fraction` (0..1) of the values are, as Prometheus does: by
 * linear interpolation within a bucket. Returns the last bound if the value is above it, and 0 if
 * there are no values. */
uint64_t buckets_at(const struct buckets *buckets, const struct bucket_bounds *bounds,
                    double fraction);

#endif
