/*
 * database_clock: an estimate of the database's time from the last reported time and the progress
 * of this server's inner clock since then.
 */
#ifndef TARRY_SQL_DATABASE_CLOCK_H
#define TARRY_SQL_DATABASE_CLOCK_H

#include <stdint.h>

struct sql_clock {
    int64_t noted_ms;  /* the last reported time of the database */
    int64_t offset_us; /* the database's clock minus the inner clock, rounded down */
};

/* Sets the clock from a greeting. */
void sql_clock_set(struct sql_clock *clock, int64_t database_ms);
/* Adjusts the clock to a time reported in a result. `seen_us` is the arrival by the inner clock; 0:
 * now. */
void sql_clock_note(struct sql_clock *clock, int64_t database_ms, int64_t seen_us);
int64_t sql_clock_ms(const struct sql_clock *clock);
/* Converts a database time to the inner clock. INT64_MAX stays unchanged. */
int64_t sql_clock_inner_us(const struct sql_clock *clock, int64_t database_ms);

#endif
