#include "base/histogram.h"

/* Buckets 0..31 hold one value each; from 32 on, each power of two has 32 steps. */
enum { STEP_BITS = 5, STEPS = 1 << STEP_BITS };

static size_t bucket_of(uint64_t value)
{
    if (value < STEPS)
        return (size_t)value;
    int shift = 63 - __builtin_clzll(value) - STEP_BITS;
    size_t bucket = ((size_t)shift << STEP_BITS) + (size_t)(value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Returns the greatest value of a bucket. The last bucket also counts all greater values. */
static uint64_t bucket_end(size_t bucket)
{
    if (bucket < STEPS)
        return bucket;
    if (bucket == HISTOGRAM_BUCKETS - 1)
        return UINT64_MAX;
    size_t shift = (bucket >> STEP_BITS) - 1;
    return ((uint64_t)(bucket % STEPS + STEPS + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->sum += value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

/* Returns the rank, counted from the smallest of `count` values, that corresponds to the
 * fraction. */
static uint64_t rank_of(uint64_t count, double fraction)
{
    if (!(fraction > 0))
        return 1;
    if (fraction >= 1)
        return count;
    double exact = fraction * (double)count;
    uint64_t rank = (uint64_t)exact;
    if ((double)rank < exact)
        rank++;
    return rank < count ? rank : count;
}

uint64_t histogram_at(const struct histogram *histogram, double fraction)
{
    uint64_t rank = rank_of(histogram->count, fraction), seen = 0;

    if (histogram->count == 0)
        return 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= rank)
            return bucket_end(i) < histogram->max ? bucket_end(i) : histogram->max;
    }
    return histogram->max;
}

uint64_t histogram_count_to(const struct histogram *histogram, uint64_t value)
{
    uint64_t seen = 0;

    for (size_t i = 0; i <= bucket_of(value); i++)
        seen += histogram->buckets[i];
    return seen;
}

void shared_histogram_add(struct shared_histogram *histogram, uint64_t value)
{
    counter_add(&histogram->sum, value);
    if (value > counter_get(&histogram->max))
        counter_set(&histogram->max, value);
    counter_add(&histogram->buckets[bucket_of(value)], 1);
}

void shared_histogram_merge(struct histogram *into, const struct shared_histogram *from)
{
    uint64_t max = counter_get(&from->max);
    into->sum += counter_get(&from->sum);
    if (max > into->max)
        into->max = max;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t count = counter_get(&from->buckets[i]);
        into->buckets[i] += count;
        into->count += count;
    }
}
