/*
 * cron: a cron expression, parsed. Pure.
 *
 *   [SECOND] MINUTE HOUR DAY-OF-MONTH MONTH DAY-OF-WEEK [YEAR]
 *
 * Five fields; six with seconds first; seven with a year last. A field is a list of `*`, values,
 * names (JAN, MON), ranges (`22-4` wraps around) and steps (`a-b/n`; `a/n` runs to the end). Days of
 * the month also have `L`, `L-3`, `15W`, `LW`; weekdays also `5L`, `5#L`, `MON#2`, and 0 and 7 are
 * Sunday. `?` means `*` in both. `H`, `H(a-b)` and `H/n` are values derived from a name.
 *
 * If both day fields are restricted, a day that matches one of them matches. A field that begins
 * with `*` or `?` is not restricted, as in cronie. A `+` before the weekdays requires both.
 *
 * @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly are abbreviations.
 */
#ifndef TARRY_SCHEDULE_CRON_H
#define TARRY_SCHEDULE_CRON_H

#include "base/slice.h"

#include <stdint.h>

enum { CRON_YEAR_MIN = 1970, CRON_YEAR_MAX = 2399, CRON_TEXT_BYTES_MAX = 256 };

/* A cron expression. Each set has one bit per value. */
struct cron {
    uint64_t seconds, minutes, hours, months;
    uint64_t days;           /* 1..31 */
    uint64_t days_last;      /* n: the day n days before the last of the month */
    uint64_t days_near;      /* n: the weekday nearest to the day n */
    uint64_t days_near_last; /* n: the weekday nearest to the day n days before the last */
    uint64_t weekdays;       /* 0..6, 0 is Sunday */
    uint64_t weekdays_last;  /* the last of its kind in the month */
    uint64_t weekdays_nth;   /* 7 * (n - 1) + weekday: the n-th of its kind in the month */
    uint64_t years[(CRON_YEAR_MAX - CRON_YEAR_MIN) / 64 + 1];
    bool either_day;  /* days of month and weekdays are both restricted, without `+` */
    bool is_interval; /* has `*`, a range or a step in hours, minutes or seconds */
    bool has_seconds;
};

/* Parses an expression. `name` is what `H` is derived from. Returns false with an error that names
 * the field and the remedy. An expression that never matches is an error. */
bool cron_parse(struct slice text, struct slice name, struct cron *out, char *error,
                size_t error_bytes);

/* Finds the first match from `from_s` on and before `before_s`. Times are local: seconds since
 * 1970-01-01 00:00 on the wall. Returns false if there is no match until CRON_YEAR_MAX. */
bool cron_next(const struct cron *cron, int64_t from_s, int64_t before_s, int64_t *out_s);

/* Returns whether a local time matches. Without a field of seconds, all seconds of a minute match. */
bool cron_covers(const struct cron *cron, int64_t local_s);

#endif
