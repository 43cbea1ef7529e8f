#include "grpc/fields.h"

#include "base/timestamp.h"

#include <inttypes.h>
#include <stdio.h>

#define LAST_SECOND INT64_C(253402300799) /* of the year 9999 */
#define DURATION_S_MAX (INT64_MAX / 1000 - 1)
enum { NANOS_MAX = 999999999, NANOS_OF_MS = 1000000 };

static bool set(struct fields *fields, enum http_option_id id, struct slice text)
{
    return http_option_set(fields->out, id, text, fields->fault);
}

static bool refuse(struct fields *fields, const char *what)
{
    return http_fault_set(fields->fault, PROBLEM_BAD_OPTION, 0, "%s", what);
}

bool fields_text(struct fields *fields, enum http_option_id id, const char *text)
{
    return !*text || set(fields, id, slice_of(text));
}

bool fields_number(struct fields *fields, enum http_option_id id, uint64_t number)
{
    char text[24];
    if (!number)
        return true;
    int len = snprintf(text, sizeof text, "%" PRIu64, number);
    return set(fields, id, slice_make(text, (size_t)len));
}

bool fields_flag(struct fields *fields, enum http_option_id id, bool flag)
{
    return !flag || set(fields, id, slice_of("true"));
}

/* A started millisecond counts, so that nothing is early. */
static int64_t ms_of(int64_t seconds, int32_t nanos)
{
    return seconds * 1000 + (nanos + NANOS_OF_MS - 1) / NANOS_OF_MS;
}

bool fields_ms_of_duration(const Google__Protobuf__Duration *duration, int64_t *ms,
                           struct http_fault *fault)
{
    if (duration->seconds < 0 || duration->seconds > DURATION_S_MAX || duration->nanos < 0 ||
        duration->nanos > NANOS_MAX)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                              "a duration is negative or malformed: give seconds, and nanos from 0 "
                              "to 999999999");
    *ms = ms_of(duration->seconds, duration->nanos);
    return true;
}

bool fields_ms_of_time(const Google__Protobuf__Timestamp *time, int64_t *ms,
                       struct http_fault *fault)
{
    if (time->seconds < 0 || time->seconds > LAST_SECOND || time->nanos < 0 ||
        time->nanos > NANOS_MAX)
        return http_fault_set(
            fault, PROBLEM_BAD_OPTION, 0,
            "a time is before 1970 or malformed: give seconds since 1970, and nanos "
            "from 0 to 999999999");
    *ms = ms_of(time->seconds, time->nanos);
    return true;
}

bool fields_duration(struct fields *fields, enum http_option_id id,
                     const Google__Protobuf__Duration *duration)
{
    char text[32];
    int64_t ms = 0;
    if (!duration)
        return true;
    if (!fields_ms_of_duration(duration, &ms, fields->fault))
        return false;
    int len = snprintf(text, sizeof text, "%" PRId64 "ms", ms);
    return set(fields, id, slice_make(text, (size_t)len));
}

bool fields_time(struct fields *fields, enum http_option_id id,
                 const Google__Protobuf__Timestamp *time)
{
    char text[TIMESTAMP_BYTES];
    int64_t ms = 0;
    if (!time)
        return true;
    if (!fields_ms_of_time(time, &ms, fields->fault))
        return false;
    timestamp_write(text, ms);
    return set(fields, id, slice_make(text, sizeof text));
}

bool fields_priority(struct fields *fields, const Tarry__V1__Priority *priority)
{
    char text[24];
    if (!priority)
        return true;
    int len = snprintf(text, sizeof text, "%" PRIu32, priority->value);
    return set(fields, OPTION_PRIORITY, slice_make(text, (size_t)len));
}

bool fields_attempts(struct fields *fields, const Tarry__V1__Attempts *attempts)
{
    char text[24];
    if (!attempts)
        return true;
    if (attempts->unlimited)
        return set(fields, OPTION_MAX_ATTEMPTS, slice_of("none"));
    int len = snprintf(text, sizeof text, "%" PRIu32, attempts->value);
    return set(fields, OPTION_MAX_ATTEMPTS, slice_make(text, (size_t)len));
}

bool fields_conflict(struct fields *fields, Tarry__V1__OnConflict conflict)
{
    static const char *const names[] = {"", "reject", "replace", "keep", "after"};
    if ((size_t)conflict >= sizeof names / sizeof names[0])
        return refuse(fields, "'on_conflict' has an unknown number");
    return fields_text(fields, OPTION_ON_CONFLICT, names[conflict]);
}

bool fields_state(struct fields *fields, Tarry__V1__State state)
{
    static const char *const names[] = {"", "delayed", "ready", "leased", "dead", "finished"};
    if ((size_t)state >= sizeof names / sizeof names[0])
        return refuse(fields, "'state' has an unknown number");
    return fields_text(fields, OPTION_STATE, names[state]);
}
