#include "base/timestamp.h"
#include "schedule/cron.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

#define NAME slice_of("report")

static struct cron parsed(const char *text)
{
    struct cron cron;
    char error[300] = "";
    if (!cron_parse(slice_of(text), NAME, &cron, error, sizeof error))
        fail_msg("%s: %s", text, error);
    return cron;
}

static int64_t seconds(const char *time)
{
    int64_t ms;
    assert_true(timestamp_parse(slice_of(time), &ms));
    return ms / 1000;
}

CLAIM(finds_the_next_match)
{
    static const struct {
        const char *cron, *from, *next, *sentence;
    } rows[] = {
        {"* * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z", "the first moment counts"},
        {"* * * * *", "2026-03-01T10:00:01Z", "2026-03-01T10:01:00Z", "the next whole minute"},
        {"* * * * * *", "2026-03-01T10:00:01Z", "2026-03-01T10:00:01Z", "each second"},
        {"*/15 * * * *", "2026-03-01T10:46:00Z", "2026-03-01T11:00:00Z",
         "steps begin anew each hour"},
        {"7/20 * * * *", "2026-03-01T10:28:00Z", "2026-03-01T10:47:00Z",
         "a step from a value to the end"},
        {"10-20/5 * * * *", "2026-03-01T10:16:00Z", "2026-03-01T10:20:00Z", "a step in a range"},
        {"0 22-2 * * *", "2026-03-01T02:01:00Z", "2026-03-01T22:00:00Z", "a range across midnight"},
        {"0 22-4/3 * * *", "2026-03-01T22:01:00Z", "2026-03-02T01:00:00Z",
         "a step in such a range"},
        {"30 9 * * MON-FRI", "2026-03-06T09:30:01Z", "2026-03-09T09:30:00Z", "names of weekdays"},
        {"30 9 * * mon-fri", "2026-03-06T09:30:01Z", "2026-03-09T09:30:00Z", "in small letters"},
        {"0 0 * * FRI-MON", "2026-03-03T00:00:00Z", "2026-03-06T00:00:00Z",
         "weekdays across Sunday"},
        {"0 0 * * SAT-SUN", "2026-03-02T00:00:00Z", "2026-03-07T00:00:00Z", "to Sunday as 0"},
        {"0 0 * * 6-7", "2026-03-08T00:00:00Z", "2026-03-08T00:00:00Z", "to Sunday as 7"},
        {"0 0 * * 7", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z", "7 is Sunday"},
        {"0 0 * * 7-2", "2026-03-04T00:00:00Z", "2026-03-08T00:00:00Z", "from Sunday as 7"},
        {"0 0 1 JAN,jul *", "2026-03-01T00:00:00Z", "2026-07-01T00:00:00Z", "names of months"},
        {"0 0 1 NOV-FEB *", "2026-02-02T00:00:00Z", "2026-11-01T00:00:00Z",
         "months across the year"},
        {"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z", "the leap day"},
        {"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z", "2100 is not a leap year"},
        {"0 0 31 * *", "2026-04-01T00:00:00Z", "2026-05-31T00:00:00Z",
         "months without a 31st are skipped"},
        {"0 0 13 * FRI", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z", "either day matches"},
        {"0 0 13 * FRI", "2026-04-11T00:00:00Z", "2026-04-13T00:00:00Z",
         "the day of the month too"},
        {"0 0 13 * +FRI", "2026-03-14T00:00:00Z", "2026-11-13T00:00:00Z", "with + both must match"},
        {"0 0 */2 * MON", "2026-03-01T00:00:00Z", "2026-03-09T00:00:00Z",
         "a field that begins with * is unrestricted"},
        {"0 0 1 * ?", "2026-03-02T00:00:00Z", "2026-04-01T00:00:00Z", "? is any day"},
        {"0 0 ? * 1", "2026-03-03T00:00:00Z", "2026-03-09T00:00:00Z", "? in the other field"},
        {"0 0 L * *", "2026-02-01T00:00:00Z", "2026-02-28T00:00:00Z", "the last day of a month"},
        {"0 0 L * *", "2028-02-01T00:00:00Z", "2028-02-29T00:00:00Z", "in a leap year"},
        {"0 0 L-3 * *", "2026-04-01T00:00:00Z", "2026-04-27T00:00:00Z", "three days before it"},
        {"0 0 L-30 * *", "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z",
         "only months with 31 days have it"},
        {"0 0 15W * *", "2026-08-01T00:00:00Z", "2026-08-14T00:00:00Z", "Saturday becomes Friday"},
        {"0 0 15W * *", "2026-11-01T00:00:00Z", "2026-11-16T00:00:00Z", "Sunday becomes Monday"},
        {"0 0 1W * *", "2026-08-01T00:00:00Z", "2026-08-03T00:00:00Z", "never in the month before"},
        {"0 0 31W * *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z", "never in the month after"},
        {"0 0 31W * *", "2026-06-01T00:00:00Z", "2026-07-31T00:00:00Z",
         "only in months that have the day"},
        {"0 0 LW * *", "2026-02-01T00:00:00Z", "2026-02-27T00:00:00Z",
         "the last weekday of the month"},
        {"0 0 L-1W * *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z",
         "the weekday near a day before the last"},
        {"0 0 1,15W,L * *", "2026-08-02T00:00:00Z", "2026-08-14T00:00:00Z", "in a list"},
        {"0 0 * * MON#2", "2026-03-01T00:00:00Z", "2026-03-09T00:00:00Z", "the second Monday"},
        {"0 0 * * 5#5", "2026-02-01T00:00:00Z", "2026-05-29T00:00:00Z",
         "months without a fifth Friday are skipped"},
        {"0 0 * * 5L", "2026-03-01T00:00:00Z", "2026-03-27T00:00:00Z", "the last Friday"},
        {"0 0 * * FRIL", "2026-03-01T00:00:00Z", "2026-03-27T00:00:00Z", "by its name"},
        {"0 0 * * 5#L", "2026-03-01T00:00:00Z", "2026-03-27T00:00:00Z", "as OCPS writes it"},
        {"0 0 * * 1#1,3#1", "2026-03-03T00:00:00Z", "2026-03-04T00:00:00Z", "in a list"},
        {"0 0 L * FRI#1", "2026-03-07T00:00:00Z", "2026-03-31T00:00:00Z", "either of such days"},
        {"30 0 0 1 1 * 2030", "2026-01-01T00:00:00Z", "2030-01-01T00:00:30Z", "a year"},
        {"0 0 0 1 1 * 2027-2031/2", "2027-01-01T00:00:01Z", "2029-01-01T00:00:00Z",
         "a step of years"},
        {"@hourly", "2026-03-01T10:00:01Z", "2026-03-01T11:00:00Z", "an abbreviation"},
        {"@Daily", "2026-03-01T10:00:01Z", "2026-03-02T00:00:00Z", "in any case"},
        {"@midnight", "2026-03-01T10:00:01Z", "2026-03-02T00:00:00Z", "the same"},
        {"@weekly", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z", "Sunday"},
        {"@monthly", "2026-03-02T00:00:00Z", "2026-04-01T00:00:00Z", "the first"},
        {"@yearly", "2026-03-02T00:00:00Z", "2027-01-01T00:00:00Z", "New Year"},
        {"@annually", "2026-03-02T00:00:00Z", "2027-01-01T00:00:00Z", "the same"},
        {"  0\t12  * * *  ", "2026-03-01T13:00:00Z", "2026-03-02T12:00:00Z", "blanks and tabs"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cron cron = parsed(rows[i].cron);
        int64_t found = 0;
        CASE_HOLDS(rows[i].sentence, cron_next(&cron, seconds(rows[i].from), INT64_MAX, &found));
        if (found != seconds(rows[i].next))
            fail_msg("%s: '%s' from %s: %lld, not %s", rows[i].sentence, rows[i].cron, rows[i].from,
                     (long long)found, rows[i].next);
        CASE_HOLDS("the match covers its second", cron_covers(&cron, found));
    }
}

CLAIM(rejects_impossible_expressions)
{
    static const struct {
        const char *cron, *named;
    } rows[] = {
        {"", "no fields"},
        {"*", "one field"},
        {"* * * *", "too few fields"},
        {"* * * * * * * *", "more than 7 fields"},
        {"60 * * * *", "minute"},
        {"-1 * * * *", "minute"},
        {"* 24 * * *", "hour"},
        {"* * 0 * *", "day of month"},
        {"* * 32 * *", "day of month"},
        {"* * * 13 *", "month"},
        {"* * * 0 *", "month"},
        {"* * * * 8", "day of week"},
        {"60 * * * * *", "second"},
        {"0 0 0 1 1 * 1969", "year"},
        {"0 0 0 1 1 * 2400", "year"},
        {"0 0 0 1 1 * 2031-2027", "ends before it begins"},
        {"*/0 * * * *", "step"},
        {"*/60 * * * *", "'every'"},
        {"*/90 * * * *", "'every'"},
        {"1/ * * * *", "step"},
        {"1, * * * *", "minute"},
        {",1 * * * *", "minute"},
        {"1-2-3 * * * *", "minute"},
        {"1- * * * *", "minute"},
        {"x * * * *", "minute"},
        {"1x * * * *", "minute"},
        {"JAN * * * *", "minute"},
        {"* * * MON *", "month"},
        {"* * * * JAN", "day of week"},
        {"* * * * MONDAY", "day of week"},
        {"00001 * * * *", "minute"},
        {"? * * * *", "minute"},
        {"* ? * * *", "hour"},
        {"* * L-31 * *", "L-"},
        {"* * L3 * *", "day of month"},
        {"* * W * *", "day of month"},
        {"* * 1-5W * *", "day of month"},
        {"* * 32W * *", "day of month"},
        {"* * * * L", "day of week"},
        {"* * * * MON#0", "'#'"},
        {"* * * * MON#6", "'#'"},
        {"* * * * 1-2#3", "day of week"},
        {"* * +1 * *", "day of month"},
        {"* * * * ++1", "day of week"},
        {"H(5-2) * * * *", "H(0-29)"},
        {"H(0-60) * * * *", "H(0-29)"},
        {"H(1 * * * *", "H(0-29)"},
        {"0 0 0 1 1 * H", "H is not allowed"},
        {"@reboot", "'@reboot'"},
        {"@often", "@hourly"},
        {"0 0 31 2 *", "never fires"},
        {"0 0 30 2 *", "never fires"},
        {"0 0 31 4,6,9,11 *", "never fires"},
        {"0 0 0 29 2 * 2027", "never fires"},
        {"0 0 30W 2 *", "never fires"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cron cron;
        char error[300] = "";
        if (cron_parse(slice_of(rows[i].cron), NAME, &cron, error, sizeof error))
            fail_msg("'%s' was accepted", rows[i].cron);
        if (!strcasestr(error, rows[i].named))
            fail_msg("'%s': \"%s\" does not contain \"%s\"", rows[i].cron, error, rows[i].named);
    }
}

CLAIM(distinguishes_fixed_times_from_intervals)
{
    static const struct {
        const char *cron;
        bool is_interval;
    } rows[] = {
        {"30 2 * * *", false},      {"0,30 2,3 * * *", false}, {"*/30 * * * *", true},
        {"0 * * * *", true},        {"0-5 2 * * *", true},     {"0 2-4 * * *", true},
        {"0 0 2 * * *", false},     {"* 0 2 * * *", true},     {"0/10 2 * * *", true},
        {"0 2 1-7 */2 1-5", false}, {"H H * * *", false},      {"H(0-29) 2 * * *", false},
        {"H/15 2 * * *", true},     {"@daily", false},         {"@hourly", true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (parsed(rows[i].cron).is_interval != rows[i].is_interval)
            fail_msg("'%s' is in the wrong class", rows[i].cron);
}

CLAIM(derives_the_same_value_from_the_same_name)
{
    struct cron once = parsed("H H * * *"), again = parsed("H H * * *"), other;
    char error[300];
    assert_memory_equal(&once, &again, sizeof once);
    assert_true(cron_parse(slice_of("H H * * *"), slice_of("other"), &other, error, sizeof error));
    assert_memory_not_equal(&once, &other, sizeof once);
}

CLAIM(spreads_names_over_the_range)
{
    uint64_t seen = 0;
    for (int i = 0; i < 1000; i++) {
        char name[20], error[300];
        struct cron cron;
        int len = snprintf(name, sizeof name, "tenant-%d", i);
        assert_true(cron_parse(slice_of("H(10-39) * * * *"), slice_make(name, (size_t)len), &cron,
                               error, sizeof error));
        assert_int_equal(__builtin_popcountll(cron.minutes), 1);
        seen |= cron.minutes;
    }
    assert_int_equal(seen, ((UINT64_C(1) << 30) - 1) << 10);
}

CLAIM(steps_of_derived_values_cover_the_range)
{
    struct cron cron = parsed("H/15 H(2-3) H * H");
    assert_int_equal(__builtin_popcountll(cron.minutes), 4);
    assert_int_equal(cron.hours & ~UINT64_C(0xc), 0);
    assert_int_equal(cron.days >> 29, 0);
    assert_int_equal(cron.weekdays >> 7, 0);
}

CLAIM(covers_whole_minutes_without_a_field_of_seconds)
{
    struct cron minutes = parsed("30 9 * * *"), second = parsed("15 30 9 * * *");
    assert_true(cron_covers(&minutes, seconds("2026-03-01T09:30:59Z")));
    assert_false(cron_covers(&minutes, seconds("2026-03-01T09:31:00Z")));
    assert_true(cron_covers(&second, seconds("2026-03-01T09:30:15Z")));
    assert_false(cron_covers(&second, seconds("2026-03-01T09:30:16Z")));
}

CLAIM(finds_nothing_at_or_after_the_end)
{
    struct cron cron = parsed("0 12 * * *");
    int64_t found = 7, noon = seconds("2026-03-01T12:00:00Z");
    assert_false(cron_next(&cron, noon - 60, noon, &found));
    assert_int_equal(found, 7);
    assert_true(cron_next(&cron, noon - 60, noon + 1, &found));
}

CLAIMS_MAIN(NULL, NULL)
