#include "base/buckets.h"

void buckets_merge(struct buckets *into, const struct buckets *from)
{
    counter_add(&into->sum, counter_get(&from->sum));
    for (size_t i = 0; i <= BUCKETS_MAX; i++)
        counter_add(&into->counts[i], counter_get(&from->counts[i]));
}

uint64_t buckets_total(const struct buckets *buckets)
{
    uint64_t total = 0;
    for (size_t i = 0; i <= BUCKETS_MAX; i++)
        total += counter_get(&buckets->counts[i]);
    return total;
}

uint64_t buckets_at(const struct buckets *buckets, const struct bucket_bounds *bounds,
                    double fraction)
{
    double rank = fraction * (double)buckets_total(buckets), seen = 0;
    if (!(rank > 0))
        return 0;
    for (uint32_t i = 0; i < bounds->count; i++) {
        double count = (double)counter_get(&buckets->counts[i]);
        if (count > 0 && seen + count >= rank) {
            uint64_t from = i ? bounds->at[i - 1] : 0;
            return from + (uint64_t)((double)(bounds->at[i] - from) * (rank - seen) / count);
        }
        seen += count;
    }
    return bounds->count ? bounds->at[bounds->count - 1] : 0;
}
