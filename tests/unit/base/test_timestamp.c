#include "base/timestamp.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <time.h>

#define MS_LAST INT64_C(253402300799999)

CLAIM(reads_rfc3339_and_milliseconds)
{
    static const struct {
        const char *text;
        int64_t ms;
        const char *sentence;
    } rows[] = {
        {"0", 0, "a bare zero"},
        {"1763629200123", 1763629200123, "milliseconds since 1970"},
        {"253402300799999", MS_LAST, "the last millisecond there is"},
        {"1970-01-01T00:00:00Z", 0, "the first"},
        {"2026-11-20T09:00:00Z", 1795165200000, "a Friday at nine"},
        {"2026-11-20t09:00:00z", 1795165200000, "small letters"},
        {"2026-11-20T17:00:00+08:00", 1795165200000, "east of Greenwich"},
        {"2026-11-20T04:30:00-04:30", 1795165200000, "west of it, by half an hour too"},
        {"2026-11-20T09:00:00-00:00", 1795165200000, "UTC of unknown place"},
        {"2026-11-20T09:00:00.5Z", 1795165200500, "one digit of fraction"},
        {"2026-11-20T09:00:00.123Z", 1795165200123, "three digits"},
        {"2026-11-20T09:00:00.1230000000000000000000Z", 1795165200123, "zeroes add nothing"},
        {"2026-11-20T09:00:00.123000001Z", 1795165200124, "what is beyond a millisecond rounds up"},
        {"2026-11-20T09:00:00.9999Z", 1795165201000, "up to the next second"},
        {"2000-02-29T00:00:00Z", 951782400000, "a leap day of a year that 400 divides"},
        {"2024-02-29T00:00:00Z", 1709164800000, "a leap day"},
        {"2016-12-31T23:59:60Z", 1483228800000, "a leap second is the next minute's 0"},
        {"2016-12-31T15:59:60.25-08:00", 1483228800250, "a leap second elsewhere"},
        {"1969-12-31T20:00:00-04:00", 0, "a local date before 1970 that is not so in UTC"},
        {"9999-12-31T23:59:59.999Z", MS_LAST, "the last"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms = -1;
        CASE_HOLDS(rows[i].sentence, timestamp_parse(slice_of(rows[i].text), &ms));
        CASE_HOLDS(rows[i].sentence, ms == rows[i].ms);
    }
}

CLAIM(refuses_everything_else)
{
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"", "nothing"},
        {"-1", "before 1970"},
        {"253402300800000", "after 9999"},
        {"99999999999999999999999", "digits without end"},
        {"1.5", "half a millisecond"},
        {"2026-11-20", "a date alone"},
        {"2026-11-20T09:00:00", "no offset"},
        {"2026-11-20T09:00Z", "no seconds"},
        {"2026-11-20 09:00:00Z", "a blank instead of T"},
        {" 2026-11-20T09:00:00Z", "a blank in front"},
        {"2026-11-20T09:00:00Z ", "a blank behind"},
        {"2026-11-20T09:00:00.Z", "a point without a fraction"},
        {"2026-11-20T09:00:00,5Z", "a comma"},
        {"2026-11-20T09:00:00+0800", "an offset without its colon"},
        {"2026-11-20T09:00:00+08", "an offset without minutes"},
        {"2026-11-20T09:00:00+24:00", "an offset of a day"},
        {"2026-11-20T09:00:00+08:60", "an offset with 60 minutes"},
        {"2026-00-20T09:00:00Z", "month 0"},
        {"2026-13-20T09:00:00Z", "month 13"},
        {"2026-11-00T09:00:00Z", "day 0"},
        {"2026-11-31T09:00:00Z", "31 November"},
        {"2026-02-29T09:00:00Z", "29 February of a common year"},
        {"2100-02-29T09:00:00Z", "29 February of a year that 100 divides"},
        {"2026-11-20T24:00:00Z", "hour 24"},
        {"2026-11-20T09:60:00Z", "minute 60"},
        {"2026-11-20T09:00:61Z", "second 61"},
        {"2026-11-20T09:00:60Z", "a leap second in the middle of a day"},
        {"2016-12-31T23:59:60+01:00", "a leap second at midnight, but not of UTC"},
        {"1969-12-31T23:59:59Z", "before 1970"},
        {"1970-01-01T00:00:00+00:01", "before 1970 in UTC"},
        {"9999-12-31T23:59:59.9991Z", "rounded up to the year 10000"},
        {"9999-12-31T23:59:59-00:01", "10000 in UTC"},
        {"02026-11-20T09:00:00Z", "five digits of a year"},
        {"2026-11-2OT09:00:00Z", "a letter O"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms = -1;
        CASE_HOLDS(rows[i].sentence, !timestamp_parse(slice_of(rows[i].text), &ms));
        CASE_HOLDS(rows[i].sentence, ms == -1);
    }
}

CLAIM(refuses_every_beginning_of_a_good_one)
{
    static const char text[] = "2026-11-20T09:00:00.123+08:00";
    int64_t ms;

    /* The first four bytes are milliseconds. */
    for (size_t len = 5; len < sizeof text - 1; len++)
        assert_false(timestamp_parse(slice_make(text, len), &ms));
    assert_true(timestamp_parse(slice_make(text, sizeof text - 1), &ms));
}

static void check_against_libc(int64_t ms)
{
    char expected[40], date[32], written[TIMESTAMP_BYTES];
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    int64_t again = -1;

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &parts));
    snprintf(expected, sizeof expected, "%s.%03dZ", date, (int)(ms % 1000));
    timestamp_write(written, ms);
    CASE_HOLDS(expected, slice_is(slice_make(written, sizeof written), expected));
    CASE_HOLDS(expected, timestamp_parse(slice_make(written, sizeof written), &again));
    CASE_HOLDS(expected, again == ms);
}

CLAIM(writes_every_day_as_libc_does)
{
    for (int64_t ms = 0; ms <= MS_LAST; ms += 86400000)
        check_against_libc(ms);
    check_against_libc(MS_LAST);
}

CLAIM(reads_its_own_output)
{
    struct random random = seed_random("reads_its_own_output");

    for (int i = 0; i < 100000; i++)
        check_against_libc((int64_t)random_below(&random, (uint64_t)MS_LAST + 1));
}

CLAIM(clamps_years_without_four_digits)
{
    struct buffer out;

    buffer_init(&out, 100);
    timestamp_emit(&out, -1);
    timestamp_emit(&out, INT64_MAX);
    timestamp_emit(&out, INT64_MIN);
    assert_true(slice_is(buffer_slice(&out), "1970-01-01T00:00:00.000Z"
                                             "9999-12-31T23:59:59.999Z"
                                             "1970-01-01T00:00:00.000Z"));
    buffer_fini(&out);
}

CLAIM(bare_seconds_and_milliseconds_are_distinguished)
{
    static const struct {
        const char *text;
        bool is_in_seconds;
    } rows[] = {
        {"0", true},
        {"1700000000", true},
        {"94694399999", true},
        {"94694400000", false},
        {"1700000000000", false},
        {"1971-01-01T00:00:00Z", false},
        {"", false},
        {"-1", false},
        {"99999999999999999999", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text,
                   timestamp_is_in_seconds(slice_of(rows[i].text)) == rows[i].is_in_seconds);
}

CLAIM(notices_times_without_a_zone)
{
    static const struct {
        const char *text;
        bool lacks_zone;
    } rows[] = {
        {"2026-11-20T09:00:00", true},
        {"2026-11-20T09:00", true},
        {"2026-11-20T09:00:00.5", true},
        {"2026-11-20T09:00:00Z", false},
        {"2026-11-20", false},
        {"tomorrow", false},
        {"", false},
        {"09:00", false},
        {"2026-02-30T09:00:00", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text,
                   timestamp_lacks_zone(slice_of(rows[i].text)) == rows[i].lacks_zone);
}

CLAIMS_MAIN(NULL, NULL)
