#include "base/peer_clock.h"

#include <assert.h>

enum { US_PER_MS = 1000, SOON_US = 500 };

struct range {
    int64_t min_us, max_us;
};

static int64_t drift_us(const struct peer_clock *clock, int64_t at_us)
{
    return at_us > clock->as_of_us ? (at_us - clock->as_of_us) / PEER_CLOCK_DRIFT_PART : 0;
}

/* Returns the known offset range, widened by drift up to this time. */
static struct range known_at(const struct peer_clock *clock, int64_t at_us)
{
    int64_t drift = drift_us(clock, at_us);
    return (struct range){clock->offset_min_us - drift, clock->offset_max_us + drift};
}

static int64_t floor_ms(int64_t us)
{
    return us >= 0 ? us / US_PER_MS : -((-us + US_PER_MS - 1) / US_PER_MS);
}

static int64_t ceil_ms(int64_t us)
{
    return -floor_ms(-us);
}

static void take_in(struct peer_clock *clock, struct range range, int64_t adjust_ms,
                    int64_t as_of_us)
{
    if (clock->is_behind)
        clock->forward_us = as_of_us;
    if (clock->is_ahead)
        clock->back_us = as_of_us;
    if (!clock->known)
        clock->since_us = as_of_us;
    clock->is_behind = clock->is_ahead = false;
    clock->known = true;
    clock->offset_min_us = range.min_us;
    clock->offset_max_us = range.max_us;
    clock->as_of_us = as_of_us;
    clock->adjust_ms = adjust_ms;
}

/* Returns true if another server has set the clock back, and nothing else has moved it: the peer's own
 * clock, without its adjustment, is where it was. */
static bool is_set_back(const struct peer_clock *clock, struct range known, struct range observed,
                        int64_t adjust_ms)
{
    int64_t moved_us = (adjust_ms - clock->adjust_ms) * US_PER_MS;
    return moved_us < 0 && observed.max_us - moved_us >= known.min_us - PEER_CLOCK_BEHIND_US &&
           observed.min_us - moved_us <= known.max_us + PEER_CLOCK_AHEAD_US;
}

/* Returns how far behind a clock adjusted by another server may be to be adopted. */
static int64_t taken_over_us(const struct peer_clock *clock, struct range known,
                             struct range observed, int64_t adjust_ms, int64_t at_us)
{
    if (adjust_ms == clock->adjust_ms)
        return 0;
    if (at_us - clock->since_us < PEER_CLOCK_FRESH_US &&
        is_set_back(clock, known, observed, adjust_ms))
        return INT64_MAX;
    bool is_undone = clock->forward_us && at_us - clock->forward_us < PEER_CLOCK_YIELD_WITHIN_US;
    return is_undone && adjust_ms < clock->adjust_ms ? PEER_CLOCK_YIELD_US
                                                     : PEER_CLOCK_TAKEN_OVER_US;
}

/* Returns true if a clock that is ahead must be adopted, because other servers have undone the setting
 * back several times. */
static bool is_outvoted(struct peer_clock *clock, int64_t adjust_ms, int64_t at_us)
{
    if (clock->is_ahead) /* the same observation again */
        return false;
    bool is_recent = clock->back_us && at_us - clock->back_us < PEER_CLOCK_YIELD_WITHIN_US;
    clock->undone = is_recent && adjust_ms > clock->adjust_ms ? clock->undone + 1 : 0;
    return clock->undone >= PEER_CLOCK_UNDONE_MAX;
}

bool peer_clock_observe(struct peer_clock *clock, int64_t peer_ms, int64_t adjust_ms,
                        int64_t sent_us, int64_t came_us, int64_t *apart_ms)
{
    /* The peer's time was rounded down by less than a millisecond. */
    struct range observed = {peer_ms * US_PER_MS - came_us, (peer_ms + 1) * US_PER_MS - sent_us};
    assert(sent_us <= came_us);
    if (!clock->known) {
        take_in(clock, observed, adjust_ms, came_us);
        return true;
    }
    struct range known = known_at(clock, came_us);
    int64_t ahead_us = observed.min_us - known.max_us, behind_us = known.min_us - observed.max_us;
    if (behind_us > 0 && behind_us <= taken_over_us(clock, known, observed, adjust_ms, came_us)) {
        take_in(clock, observed, adjust_ms, came_us);
        return true;
    }
    if (ahead_us > PEER_CLOCK_AHEAD_US && is_outvoted(clock, adjust_ms, came_us)) {
        clock->undone = 0;
        take_in(clock, observed, adjust_ms, came_us);
        return true;
    }
    if (ahead_us > PEER_CLOCK_AHEAD_US || behind_us > PEER_CLOCK_BEHIND_US) {
        *apart_ms = ceil_ms(observed.max_us - known.max_us);
        clock->is_behind |= behind_us > 0;
        clock->is_ahead |= ahead_us > 0;
        return false;
    }
    if (ahead_us > 0 || behind_us > 0) {
        /* A small deviation: the range is left to follow by drift only, because many small steps
         * could add up. */
        clock->adjust_ms = adjust_ms;
        return true;
    }
    if (observed.min_us > known.min_us)
        known.min_us = observed.min_us;
    if (observed.max_us < known.max_us)
        known.max_us = observed.max_us;
    /* A drift of less than a microsecond is carried over to the next reply. */
    int64_t counted_us = clock->as_of_us + drift_us(clock, came_us) * PEER_CLOCK_DRIFT_PART;
    take_in(clock, known, adjust_ms, counted_us);
    return true;
}

void peer_clock_window(const struct peer_clock *clock, int64_t sent_us, int64_t *earliest_ms,
                       int64_t *latest_ms)
{
    assert(clock->known);
    struct range known = known_at(clock, sent_us);
    *earliest_ms = floor_ms(sent_us + known.min_us - PEER_CLOCK_BEHIND_US);
    *latest_ms = floor_ms(sent_us + known.max_us);
}

void peer_clock_hold(struct peer_clock *clock, int64_t peer_ms)
{
    *clock = (struct peer_clock){.is_held = true, .held_ms = peer_ms};
}

int64_t peer_clock_to_inner(const struct peer_clock *clock, int64_t peer_ms)
{
    if (clock->is_held)
        return peer_ms <= clock->held_ms ? 0 : INT64_MAX;
    assert(clock->known);
    if (peer_ms == INT64_MAX)
        return INT64_MAX;
    /* Chooses the earliest time at which it may be due; if the range is wide, about the time at
     * which it is as likely as not. A call takes some time to arrive, and one that comes too early
     * is simply repeated. */
    int64_t most_us = clock->offset_max_us - clock->offset_min_us;
    int64_t before_us = most_us / 2 < SOON_US ? most_us : most_us / 2 + SOON_US;
    return peer_ms * US_PER_MS - clock->offset_min_us - before_us;
}
