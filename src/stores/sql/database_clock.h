/*
 * database_clock: the database's time, as far as this server knows it: what was told last, and how its
 * own inner clock went since.
 */
#ifndef TARRY_SQL_DATABASE_CLOCK_H
#define TARRY_SQL_DATABASE_CLOCK_H

#include <stdint.h>

struct sql_clock {
    int64_t noted_ms;  /* the database's time, when it was told last */
    int64_t offset_us; /* the database's clock less the inner one; rather less than it is */
};

/* By a greeting. */
void sql_clock_set(struct sql_clock *clock, int64_t database_ms);
/* An answer told the time; `seen_us` is when it came, by the inner clock; 0: now. */
void sql_clock_note(struct sql_clock *clock, int64_t database_ms, int64_t seen_us);
int64_t sql_clock_ms(const struct sql_clock *clock);
/* The same moment by the inner clock; INT64_MAX stays what it is. */
int64_t sql_clock_inner_us(const struct sql_clock *clock, int64_t database_ms);

#endif
