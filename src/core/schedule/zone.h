/*
 * zone: the offsets of a time zone, read from a TZif file. Pure.
 *
 * Own reader, because the C library supports one zone per process. Reads version 2 and later (RFC
 * 8536); files with leap seconds ("right/…") are refused. Times from 1970 on. After the last change
 * of the file, the rule at its end applies.
 */
#ifndef TARRY_SCHEDULE_ZONE_H
#define TARRY_SCHEDULE_ZONE_H

#include "base/slice.h"

#include <stdint.h>

enum { ZONE_NAME_BYTES_MAX = 64, ZONE_FILE_BYTES_MAX = 64 * 1024 };

struct zone_change {
    int64_t at_s;
    int32_t offset_s; /* east of UTC, from then on */
};

/* A day and time at which an offset changes each year. */
struct zone_rule {
    enum { ZONE_RULE_JULIAN = 1, ZONE_RULE_DAY, ZONE_RULE_WEEKDAY } kind;
    int32_t day; /* JULIAN: 1..365, 29 February does not count. DAY: 0..365. WEEKDAY: 0..6 */
    int32_t month, week;
    int32_t time_s; /* local time, may be negative or beyond a day */
};

struct zone {
    int32_t first_offset_s; /* until the first change */
    struct zone_change *changes;
    size_t change_count;
    bool has_rule; /* after the last change */
    bool has_summer;
    int32_t standard_s, summer_s;
    struct zone_rule summer_start, summer_end;
    uint64_t digest; /* of the file */
};

/* A span of time with one offset. */
struct zone_span {
    int64_t start_s, end_s; /* INT64_MIN, INT64_MAX: unlimited */
    int32_t before_s, offset_s, after_s;
};

/* Parses the bytes of a file. Returns false if they are malformed, or if out of memory. */
bool zone_parse(struct slice bytes, struct zone *out);
void zone_fini(struct zone *zone);

/* Finds the span of a time. NULL is UTC. */
void zone_span_at(const struct zone *zone, int64_t at_s, struct zone_span *out);

/* Returns whether the text can be the name of a zone: no path out of the directory, and no file that
 * follows the local settings of a machine. */
bool zone_name_is_valid(struct slice name);

#endif
