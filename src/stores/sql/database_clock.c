#include "sql/database_clock.h"

#include "base/clock.h"
#include "base/log.h"

enum { STEP_MS = 100, LOG_MS = 10000 };

/* Notes that the clock is off by `apart_ms`. A slewed clock is corrected many times a second, and is
 * logged once in ten seconds. */
static void clock_is_apart(struct sql_clock *clock, int64_t apart_ms, int64_t adjust_ms)
{
    if (!clock->is_apart) {
        clock->corrections++;
        if (apart_ms >= STEP_MS || apart_ms <= -STEP_MS)
            clock_note_step(apart_ms);
        if (clock_boot_ms() >= clock->logged_ms) {
            clock->logged_ms = clock_boot_ms() + LOG_MS;
            log_event(LOG_WARN, "the clock of the database was set, and is corrected",
                      LOG_NUMBER("ahead_ms", apart_ms));
        }
    }
    clock->is_apart = true;
    clock->seen_ms = adjust_ms;
}

bool sql_clock_observe(struct sql_clock *clock, const struct sql_times *times)
{
    int64_t apart_ms = 0;
    if (!peer_clock_observe(&clock->peer, times->last_ms, times->adjust_ms, times->sent_us,
                            times->came_us, &apart_ms)) {
        clock_is_apart(clock, apart_ms, times->adjust_ms);
        return false;
    }
    clock->is_apart = false;
    /* The clock may have been corrected between the two statements. */
    struct peer_clock probe = clock->peer;
    return peer_clock_observe(&probe, times->first_ms, times->adjust_ms, times->sent_us,
                              times->came_us, &apart_ms);
}

void sql_clock_window(const struct sql_clock *clock, int64_t *earliest_ms, int64_t *latest_ms)
{
    peer_clock_window(&clock->peer, clock_inner_us(), earliest_ms, latest_ms);
}

/* Returns the least offset of the database's clock from the inner clock. */
static int64_t offset_us(const struct sql_clock *clock)
{
    return clock->peer.offset_min_us;
}

int64_t sql_clock_ms(const struct sql_clock *clock)
{
    return (clock_inner_us() + offset_us(clock)) / 1000;
}

int64_t sql_clock_inner_us(const struct sql_clock *clock, int64_t database_ms)
{
    return database_ms > INT64_MAX / 1000 ? INT64_MAX : database_ms * 1000 - offset_us(clock);
}
