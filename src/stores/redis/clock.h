/*
 * clock: does a shard's clock run as ours does? Pure.
 *
 * A shard's clock is its master's TIME plus an adjustment kept in Redis. A server knows, from the
 * answers, how that clock stands to its own elapsed time (the inner clock of base/clock.h; its wall
 * clock plays no part): to within a journey to Redis and back, and what two clocks may drift apart
 * since the last answer. What it knows narrows with each answer and moves by drift alone. A clock
 * that is outside it was set, is being slewed, or is another one, of a replica that was promoted.
 *
 * - Ahead: nothing comes early. Each call brings along what the clock can show at most, and is
 *   carried out as of then (scripts/common/ending.lua). What is ahead by more than
 *   REDIS_CLOCK_AHEAD_US is put back, since a server that comes new would believe it.
 * - Behind: what is given a due by it would come early once it is put right. So calls are refused,
 *   and it is put forward, but never beyond how it ran.
 *
 * Who puts the clock right does so to within a journey, rather behind; the others see that the
 * adjustment is another, and take that over. So all servers go by one clock, and it is late rather
 * than early.
 */
#ifndef TARRY_REDIS_CLOCK_H
#define TARRY_REDIS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REDIS_CLOCK_AHEAD_US = 1000,   /* more is put back */
    REDIS_CLOCK_BEHIND_US = 1000,  /* more is refused, and put forward */
    REDIS_CLOCK_DRIFT_PART = 5000, /* of the time that passed two clocks may be apart: 200 ppm */
    /* Another's setting back is taken over up to so much; more where ours was just undone by it, for
     * two servers that disagree must not go on putting the clock to and fro. */
    REDIS_CLOCK_TAKEN_OVER_US = 50000,
    REDIS_CLOCK_YIELD_US = 500000,
    REDIS_CLOCK_YIELD_WITHIN_US = 10000000
};

/* Shard minus inner, somewhere in here at `as_of_us`: what all answers so far leave. */
struct redis_clock {
    bool known;
    bool is_held;    /* a test's, which stands still: then the rest says nothing */
    int64_t held_ms; /* where */
    int64_t offset_min_us, offset_max_us;
    int64_t as_of_us;   /* inner */
    int64_t adjust_ms;  /* the adjustment then */
    bool is_behind;     /* it was found to be, and is not put forward yet */
    int64_t forward_us; /* inner: when it last was */
};

/*
 * An answer says the shard's clock showed `shard_ms`, with this adjustment, some time between
 * `sent_us` and `came_us` (inner). True: it agrees (or is the first), and is taken in. False:
 * *apart_ms is how far the shard's clock is ahead (negative: behind); what is known stays. Set back by
 * that much it is not ahead of what is known, and behind by no more than the two journeys took; so
 * correct by an answer that came fast. One that took long disagrees only where no moment of its
 * journey would fit.
 */
bool redis_clock_hear(struct redis_clock *clock, int64_t shard_ms, int64_t adjust_ms,
                      int64_t sent_us, int64_t came_us, int64_t *apart_ms);
/* It stands there. */
void redis_clock_hold(struct redis_clock *clock, int64_t shard_ms);
/* Between what the shard's clock shows when a call sent at `sent_us` leaves, if it goes on as it
 * ran. What is past the latest is taken for it (also a call that waited in Redis is carried out as
 * if it had not); what is before the earliest is refused. Only where the clock is known. */
void redis_clock_window(const struct redis_clock *clock, int64_t sent_us, int64_t *earliest_ms,
                        int64_t *latest_ms);
/* Shard time to inner time, in microseconds: a call sent from then on is carried out at that time or later. INT64_MAX
 * stays what it is, and what lies ahead of a clock that is held is as far. Only where the clock is known or held. */
int64_t redis_clock_to_inner(const struct redis_clock *clock, int64_t shard_ms);

#endif
