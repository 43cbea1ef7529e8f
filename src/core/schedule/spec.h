/*
 * spec: what a user specifies about a schedule, as JSON. Pure.
 *
 * The members of the plan are read here; the others describe the jobs and are left to the caller.
 * Canonical JSON has the members in a fixed order and without defaults, so equal plans have equal
 * texts.
 */
#ifndef TARRY_SCHEDULE_SPEC_H
#define TARRY_SCHEDULE_SPEC_H

#include "base/json_read.h"
#include "schedule/timetable.h"

enum {
    SPEC_NAME_BYTES_MAX = 100,
    SPEC_NOTE_BYTES_MAX = 500,
    SPEC_OWNER_BYTES_MAX = 100,
    SPEC_ERROR_BYTES = 400
};
#define SPEC_YEAR_MS (365LL * 24 * 3600 * 1000)
#define SPEC_EVERY_MS_MIN 1000
#define SPEC_CATCH_UP_MS (24LL * 3600 * 1000)
#define SPEC_GRACE_MS (60LL * 1000)
#define SPEC_JITTER_MS_MAX (24LL * 3600 * 1000)

enum spec_missed { MISSED_LAST = 1, MISSED_ALL, MISSED_NONE };
/* AFTER: the fire runs after the job before; REPLACE: also the job before is asked to end. */
enum spec_overlap { OVERLAP_ALLOW = 1, OVERLAP_SKIP, OVERLAP_AFTER, OVERLAP_REPLACE };

struct spec {
    struct timetable table;
    struct slice crons[TIMETABLE_CRONS_MAX]; /* the texts of the expressions */
    struct slice excepts[TIMETABLE_EXCEPT_MAX];
    struct slice zone; /* empty: UTC */
    struct slice note, owner;
    int64_t jitter_ms, catch_up_ms, grace_ms;
    uint64_t count; /* of fires; 0: unlimited */
    enum spec_missed missed;
    enum spec_overlap overlap;
    bool paused;
};

/* Returns whether a name is valid: 1 to 100 bytes of printable ASCII without '@'; not "." or "..". */
bool spec_name_is_valid(struct slice name);

/* Returns whether a member of an object belongs to the plan. */
bool spec_has_member(struct slice raw_key);

/* Reads the plan of a JSON object; other members are skipped. Slices of *out point into the text
 * and into `arena`, which must have room for the length of the text. Returns false with an error
 * (SPEC_ERROR_BYTES) that names the member and the remedy. The zone is only checked for its form. */
bool spec_read(struct json_value object, struct slice name, struct buffer *arena, struct spec *out,
               char *error);

/* Appends `"cron":…,"zone":…`: the members without braces. */
void spec_write(struct buffer *out, const struct spec *spec);

/* Checks what depends on the zone: whether there is a fire after `after_ms`, and whether the jitter
 * is shorter than the time between fires. */
bool spec_check(const struct spec *spec, const struct zone *zone, int64_t after_ms, char *error);

/* Returns the shift of a fire by the jitter of the schedule. */
int64_t spec_jitter(const struct spec *spec, struct slice name, int64_t at_ms);

#endif
