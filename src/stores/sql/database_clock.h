/*
 * database_clock: what a server knows of the database's clock: its wall clock plus the adjustment in
 * tarry.store (base/peer_clock.h). A transaction whose time disagrees is rolled back and repeated
 * once the clock is corrected, so a clock that was set or slewed makes no job early.
 *
 * Times of the queue are times of that clock. Times for callers are those of the database's wall
 * clock, without the adjustment.
 */
#ifndef TARRY_SQL_DATABASE_CLOCK_H
#define TARRY_SQL_DATABASE_CLOCK_H

#include "base/peer_clock.h"

struct sql_clock {
    struct peer_clock peer;
    bool is_apart;        /* a correction must be made */
    int64_t seen_ms;      /* the adjustment of the last disagreeing time */
    uint64_t corrections; /* number of times that the clock disagreed with what was known */
    int64_t logged_ms;    /* elapsed: earliest time to log the next one */
};

/* Times that a transaction reported. */
struct sql_times {
    int64_t first_ms, last_ms; /* at its first and its last statement */
    int64_t adjust_ms;         /* the adjustment at the last one */
    int64_t sent_us, came_us;  /* inner clock: before the first one, after the last one */
};

/* Takes in the times of a transaction. Returns false if they disagree with what is known: the
 * transaction must be rolled back. If the clock must be corrected, `is_apart` is then set. */
bool sql_clock_observe(struct sql_clock *clock, const struct sql_times *times);
/* Computes the earliest and the latest time that the clock can show now, if it keeps its rate. */
void sql_clock_window(const struct sql_clock *clock, int64_t *earliest_ms, int64_t *latest_ms);
/* Returns the database's time, rounded down. */
int64_t sql_clock_ms(const struct sql_clock *clock);
/* Converts a database time to the inner clock. INT64_MAX stays unchanged. */
int64_t sql_clock_inner_us(const struct sql_clock *clock, int64_t database_ms);

#endif
