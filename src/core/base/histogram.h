/*
 * histogram: counts values with a precision of 1/32. Pure.
 *
 * Log-linear buckets as in HdrHistogram (G. Tene): 32 steps to each power of two, values 0 to 2^40,
 * fixed memory.
 */
#ifndef TARRY_BASE_HISTOGRAM_H
#define TARRY_BASE_HISTOGRAM_H

#include "base/counter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 37 * 32 };

struct histogram {
    uint64_t count, sum, max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* Returns the value at or below which `fraction` (0..1) of the counts are: the upper end of the
 * bucket, but never above max. Returns 0 if empty. */
uint64_t histogram_at(const struct histogram *histogram, double fraction);

/* Returns the number of values <= `value`, to the precision of a bucket: the whole bucket that
 * contains `value` counts. */
uint64_t histogram_count_to(const struct histogram *histogram, uint64_t value);

/* A histogram that one thread adds to and any thread reads without a lock. A read during an add may
 * lack the newest values. Zeroed: empty. */
struct shared_histogram {
    _Atomic uint64_t sum, max;
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

void shared_histogram_add(struct shared_histogram *histogram, uint64_t value);
/* Adds the counts of `from` to `into`. */
void shared_histogram_merge(struct histogram *into, const struct shared_histogram *from);

#endif
