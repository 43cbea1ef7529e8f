#include "redis/clock.h"

#include <assert.h>

bool redis_clock_hear(struct redis_clock *clock, int64_t shard_ms, int64_t sent_ms, int64_t came_ms,
                      int64_t *apart_ms)
{
    /* All three were rounded down, each by less than one. */
    int64_t min_ms = shard_ms - came_ms - 1, max_ms = shard_ms - sent_ms + 1;
    assert(sent_ms <= came_ms);
    if (!clock->known) {
        *clock = (struct redis_clock){true, min_ms, max_ms};
        return true;
    }
    if (min_ms - clock->offset_max_ms > REDIS_CLOCK_APART_MS ||
        clock->offset_min_ms - max_ms > REDIS_CLOCK_APART_MS) {
        *apart_ms = max_ms - clock->offset_min_ms;
        return false;
    }
    /* Ranges that do not meet: one of the clocks drifts. The new one is nearer to the truth. */
    bool they_meet = min_ms <= clock->offset_max_ms && max_ms >= clock->offset_min_ms;
    if (!they_meet || min_ms > clock->offset_min_ms)
        clock->offset_min_ms = min_ms;
    if (!they_meet || max_ms < clock->offset_max_ms)
        clock->offset_max_ms = max_ms;
    return true;
}

void redis_clock_window(const struct redis_clock *clock, int64_t sent_ms, int64_t *earliest_ms,
                        int64_t *latest_ms)
{
    assert(clock->known);
    *earliest_ms = sent_ms + clock->offset_min_ms - REDIS_CLOCK_APART_MS;
    *latest_ms = sent_ms + clock->offset_max_ms + REDIS_CLOCK_APART_MS;
}

int64_t redis_clock_to_inner(const struct redis_clock *clock, int64_t shard_ms)
{
    assert(clock->known);
    return shard_ms == INT64_MAX ? INT64_MAX : shard_ms - clock->offset_min_ms;
}
