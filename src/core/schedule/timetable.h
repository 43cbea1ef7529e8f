/*
 * timetable: the fires of cron expressions or an interval, in a zone, with exceptions. Pure.
 *
 * Times are wall clock milliseconds. Daylight saving:
 *   - A fixed expression (single values in hours, minutes and seconds) whose time is in a gap fires
 *     at the end of the gap (`gap` skip: not at all). A time that occurs twice fires at the first
 *     (`fold` last, both).
 *   - An interval expression fires whenever the clock on the wall matches.
 *   - A gap of more than TIMETABLE_GAP_MAX_S is a day that does not exist: no fire.
 *   - `every` counts milliseconds; daylight saving does not affect it.
 */
#ifndef TARRY_SCHEDULE_TIMETABLE_H
#define TARRY_SCHEDULE_TIMETABLE_H

#include "schedule/cron.h"
#include "schedule/zone.h"

enum {
    TIMETABLE_CRONS_MAX = 16,
    TIMETABLE_EXCEPT_MAX = 16, /* expressions */
    TIMETABLE_DAYS_MAX = 400,  /* excepted days */
    TIMETABLE_GAP_MAX_S = 3 * 3600
};

#define TIMETABLE_END_MS INT64_C(13569465600000) /* 2400-01-01: no fires from then on */

enum timetable_gap { GAP_AFTER = 1, GAP_SKIP };
enum timetable_fold { FOLD_FIRST = 1, FOLD_LAST, FOLD_BOTH };

struct timetable {
    struct cron crons[TIMETABLE_CRONS_MAX];
    size_t cron_count;          /* 0: an interval */
    int64_t every_ms, phase_ms; /* fires at start_ms + phase_ms + n * every_ms */
    int64_t start_ms;           /* no fire before it; 0: the epoch */
    int64_t end_ms;             /* no fire after it; 0: unlimited */
    enum timetable_gap gap;
    enum timetable_fold fold;
    struct cron except[TIMETABLE_EXCEPT_MAX];
    size_t except_count;
    int32_t days[TIMETABLE_DAYS_MAX]; /* excepted local days since 1970-01-01 */
    size_t day_count;
};

enum timetable_remark {
    REMARK_MOVED = 1, /* the local time does not exist; fires at the end of the gap */
    REMARK_FIRST,     /* the local time occurs twice; this is the first */
    REMARK_SECOND,
    REMARK_DROPPED /* before this fire, one was dropped because its local time does not exist */
};

struct timetable_fire {
    int64_t at_ms;
    int32_t offset_s; /* of the zone */
    enum timetable_remark remark;
    int64_t local_s; /* MOVED, DROPPED: the local time that does not exist */
};

enum timetable_found {
    TIMETABLE_NONE = 0, /* no further fire */
    TIMETABLE_FIRE,
    /* A long stretch is excepted. No fire is before at_ms; search again from there. */
    TIMETABLE_LATER
};

/* Finds the first fire after `after_ms`. `zone` NULL is UTC. */
enum timetable_found timetable_next(const struct timetable *table, const struct zone *zone,
                                    int64_t after_ms, struct timetable_fire *out);

/* Does the same as if the timetable had no end. */
enum timetable_found timetable_next_endless(const struct timetable *table, const struct zone *zone,
                                            int64_t after_ms, struct timetable_fire *out);

#endif
