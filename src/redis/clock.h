/*
 * clock: does a shard's clock run as ours does? Pure.
 *
 * A shard's clock is its master's TIME plus an adjustment kept in Redis. A server knows, from the
 * answers, how that clock stands to its own elapsed time (the inner clock of base/clock.h; its wall
 * clock plays no part). When an answer's time is off by more than REDIS_CLOCK_APART_MS from what it
 * should be, a replica with another clock was promoted, or the host's clock was set: the server
 * counts it, and has the adjustment changed so that the shard's clock goes on as it ran. What it
 * has sent before it knew brought a window of time along, and is not carried out by a clock outside
 * it; so nothing comes early.
 */
#ifndef TARRY_REDIS_CLOCK_H
#define TARRY_REDIS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { REDIS_CLOCK_APART_MS = 500 };

/* Shard minus inner, somewhere in here: each reply's journey leaves a range, and all so far met. */
struct redis_clock {
    bool known;
    int64_t offset_min_ms, offset_max_ms;
};

/*
 * A reply says the shard's clock showed `shard_ms` some time between `sent_ms` and `came_ms`
 * (inner). True: it agrees (or is the first), and is taken in; small differences are followed.
 * False: *apart_ms is how far the shard's clock is ahead (negative: behind); nothing changes. Set
 * back by that much it is never ahead of how it ran, and behind by no more than the two journeys
 * took; so correct by a reply that came fast. A reply that took long disagrees only where no moment
 * of its journey would fit.
 */
bool redis_clock_hear(struct redis_clock *clock, int64_t shard_ms, int64_t sent_ms, int64_t came_ms,
                      int64_t *apart_ms);
/* Between what the shard's clock will show when a call sent at `sent_ms` is carried out, if it goes
 * on as it ran and the call does not wait for long. What is past the latest is taken for it
 * (a call that waited is carried out as if it had not); what is before the earliest went back, and
 * the call is refused (scripts/common/ending.lua). Only where the clock is known. */
void redis_clock_window(const struct redis_clock *clock, int64_t sent_ms, int64_t *earliest_ms,
                        int64_t *latest_ms);
/* Shard time to inner time, rounded so that waking then is never before, while both clocks run
 * alike; where one drifts it may be 2 ms before, and who wakes so early just looks again. INT64_MAX
 * stays what it is. Only where the clock is known. */
int64_t redis_clock_to_inner(const struct redis_clock *clock, int64_t shard_ms);

#endif
