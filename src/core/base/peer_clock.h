/*
 * peer_clock: checks that the clock of a peer, such as Redis or a database, runs at the rate of the
 * local clock. Pure.
 *
 * The clock is the peer's wall clock plus an adjustment that the peer stores. From the replies, a
 * server knows the offset of that clock from its own elapsed time (the inner clock of base/clock.h;
 * the local wall clock is not involved). The offset is known to within one round trip plus the drift
 * that two clocks may accumulate since the last reply. Each reply narrows the range; only drift moves
 * it. A clock outside the range was set, is being slewed, or belongs to another machine: a replica
 * that was promoted.
 *
 * - Ahead: nothing may happen early. A call is carried out as of the latest time that the clock can
 *   show, or is undone. A clock that is ahead by more than PEER_CLOCK_AHEAD_US is set back, because a
 *   newly started server would trust it.
 * - Behind: a due time taken from this clock would come early once the clock is corrected. So calls
 *   are refused and the clock is set forward, but never beyond where it would be by its own rate.
 *
 * The server that corrects a clock does so to within one round trip, erring on the late side. The
 * other servers see that the adjustment changed and adopt it. So all servers use one clock, and
 * that clock is late rather than early.
 */
#ifndef TARRY_PEER_CLOCK_H
#define TARRY_PEER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PEER_CLOCK_AHEAD_US = 1000,   /* set back if ahead by more */
    PEER_CLOCK_BEHIND_US = 1000,  /* refuse calls and set forward if behind by more */
    PEER_CLOCK_DRIFT_PART = 5000, /* of the elapsed time: two clocks may drift 200 ppm */
    /* Another server's setting back is adopted up to this amount. A larger one is adopted only if
     * it just undid this server's own, so that two servers that disagree do not set the clock back
     * and forth. */
    PEER_CLOCK_TAKEN_OVER_US = 50000,
    PEER_CLOCK_YIELD_US = 500000,
    PEER_CLOCK_YIELD_WITHIN_US = 10000000,
    /* A server that has known the clock for less than this time adopts any setting back by another
     * server, if only the adjustment changed: it may have started on a clock that had just been set. */
    PEER_CLOCK_FRESH_US = 30000000,
    /* A server whose setting back was undone this often in a row adopts the clock: it stood still
     * without noticing, since no machine's elapsed time runs ahead. */
    PEER_CLOCK_UNDONE_MAX = 3
};

/* The range of peer time minus inner time at `as_of_us`, as narrowed by all replies so far. */
struct peer_clock {
    bool known;
    bool is_held;    /* a test clock that stands still: only held_ms is used */
    int64_t held_ms; /* the time that a held clock shows */
    int64_t offset_min_us, offset_max_us;
    int64_t as_of_us;   /* inner time */
    int64_t adjust_ms;  /* the adjustment at that time */
    int64_t since_us;   /* inner time of the first reply */
    bool is_behind;     /* the clock was found behind and has not been set forward yet */
    bool is_ahead;      /* the clock was found ahead and has not been set back yet */
    int64_t forward_us; /* inner time at which it was last set forward */
    int64_t back_us;    /* inner time at which it was last set back */
    unsigned undone;    /* number of times in a row that the setting back was undone */
};

/*
 * Takes in a reply: the peer's clock showed `peer_ms`, with this adjustment, at some time between
 * `sent_us` and `came_us` (inner). Returns true if the reply agrees with the known range (or is the
 * first). Returns false if it does not: then *apart_ms is how far the peer's clock is ahead
 * (negative: behind), and the known range does not change. After the clock is set back by that much
 * it is not ahead of the known range, and it is behind by no more than the two round trips took.
 * The correction is therefore precise if the reply came fast. A slow reply disagrees only if no
 * moment of its round trip fits.
 */
bool peer_clock_observe(struct peer_clock *clock, int64_t peer_ms, int64_t adjust_ms,
                        int64_t sent_us, int64_t came_us, int64_t *apart_ms);
/* Notes that the peer's clock is held at this time. */
void peer_clock_hold(struct peer_clock *clock, int64_t peer_ms);
/* Computes the earliest and the latest time that the peer's clock can show when a call sent at
 * `sent_us` leaves, if the clock keeps its rate. A time past the latest is treated as the latest,
 * so a call that waited at the peer is carried out as if it had not waited. A time before the earliest
 * is refused. Valid only if the clock is known. */
void peer_clock_window(const struct peer_clock *clock, int64_t sent_us, int64_t *earliest_ms,
                       int64_t *latest_ms);
/* Converts peer time to inner time, in microseconds: a call sent at or after the result is carried
 * out at that peer time or later. INT64_MAX stays INT64_MAX, and so does any time ahead of a held
 * clock. Valid only if the clock is known or held. */
int64_t peer_clock_to_inner(const struct peer_clock *clock, int64_t peer_ms);

#endif
