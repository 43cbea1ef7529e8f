/*
 * histogram: how often which value, within 1/32 of the value. Pure.
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

/* The value at or below which `fraction` (0..1) of the counts lie: the bucket's upper end, but
 * never above max. 0 if empty. */
uint64_t histogram_at(const struct histogram *histogram, double fraction);

/* How many values were <= `value` (to the bucket's precision: all of the bucket that `value` is
 * in). */
uint64_t histogram_count_to(const struct histogram *histogram, uint64_t value);

/* One that a single thread adds to and any thread reads, without a lock. What is read while it is
 * added to may lack the newest values. Zeroed: empty. */
struct shared_histogram {
    _Atomic uint64_t sum, max;
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

void shared_histogram_add(struct shared_histogram *histogram, uint64_t value);
/* Adds what it holds to `into`. */
void shared_histogram_merge(struct histogram *into, const struct shared_histogram *from);

#endif
