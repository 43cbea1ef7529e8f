#include "base/error.h"
#include "base/timestamp.h"
#include "schedule/calendar.h"
#include "schedule/timetable.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/schedule/zone_bytes.h"

#include <string.h>

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"
#define HOWE "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0" /* its gap is half an hour */
#define CAIRO "EET-2EEST,M4.5.5/0,M10.5.4/24"       /* its gap begins at midnight */

static int64_t ms_of(const char *time)
{
    int64_t ms;
    if (!timestamp_parse(slice_of(time), &ms))
        fail_msg("no time: '%s'", time);
    return ms;
}

static struct timetable table_of(const char *cron)
{
    struct timetable table = {.cron_count = 1, .gap = GAP_AFTER, .fold = FOLD_FIRST};
    char error[300] = "";
    if (!cron_parse(slice_of(cron), slice_of("x"), &table.crons[0], error, sizeof error))
        fail_msg("%s", error);
    return table;
}

/* Fails unless the fires after a time are these, separated by blanks. */
static void check_fires(const char *sentence, const struct timetable *table,
                        const struct zone *zone, const char *after, const char *fires)
{
    int64_t after_ms = ms_of(after);
    for (const char *at = fires; *at;) {
        struct timetable_fire fire = {0};
        char expected[40], found[TIMESTAMP_BYTES + 1] = {0};
        size_t len = strcspn(at, " ");
        memcpy(expected, at, len);
        expected[len] = 0;
        if (timetable_next(table, zone, after_ms, &fire) != TIMETABLE_FIRE)
            fail_msg("%s: no fire, not %s", sentence, expected);
        timestamp_write(found, fire.at_ms);
        if (fire.at_ms != ms_of(expected))
            fail_msg("%s: %s, not %s", sentence, found, expected);
        after_ms = fire.at_ms;
        at += len;
        at += *at == ' ';
    }
}

CLAIM(daylight_saving_follows_the_table_of_the_page)
{
    static const struct {
        const char *sentence, *zone, *cron;
        enum timetable_gap gap;
        enum timetable_fold fold;
        const char *after, *fires;
    } rows[] = {
        {"a fixed time in the gap fires after it", BERLIN, "30 2 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
        {"gap skip: not on that day", BERLIN, "30 2 * * *", GAP_SKIP, FOLD_FIRST,
         "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
        {"two fixed times that meet fire once", BERLIN, "0 2,3 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z"},
        {"several times in the gap fire once", BERLIN, "0,15,30 2 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z"},
        {"an interval passes over the gap", BERLIN, "*/30 * * * *", GAP_AFTER, FOLD_FIRST,
         "2026-03-29T00:00:00Z", "2026-03-29T00:30:00Z 2026-03-29T01:00:00Z 2026-03-29T01:30:00Z"},
        {"an interval within the gap is dropped", BERLIN, "*/15 2 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-03-28T12:00:00Z", "2026-03-30T00:00:00Z"},
        {"a fixed time in the fold fires at the first", BERLIN, "30 2 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
        {"fold last: at the second", BERLIN, "30 2 * * *", GAP_AFTER, FOLD_LAST,
         "2026-10-24T12:00:00Z", "2026-10-25T01:30:00Z 2026-10-26T01:30:00Z"},
        {"fold both: twice", BERLIN, "30 2 * * *", GAP_AFTER, FOLD_BOTH, "2026-10-24T12:00:00Z",
         "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-26T01:30:00Z"},
        {"02:00 once, then 03:00", BERLIN, "0 2,3 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-10-24T12:00:00Z", "2026-10-25T00:00:00Z 2026-10-25T02:00:00Z"},
        {"an interval fires in both hours", BERLIN, "*/30 * * * *", GAP_AFTER, FOLD_FIRST,
         "2026-10-24T23:59:00Z",
         "2026-10-25T00:00:00Z 2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z "
         "2026-10-25T02:00:00Z"},
        {"a gap of half an hour", HOWE, "15 2 * * *", GAP_AFTER, FOLD_FIRST, "2026-10-03T00:00:00Z",
         "2026-10-03T15:30:00Z 2026-10-04T15:15:00Z"},
        {"a fold of half an hour", HOWE, "45 1 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-04-03T15:00:00Z", "2026-04-04T14:45:00Z 2026-04-05T15:15:00Z"},
        {"midnight in the gap fires at one", CAIRO, "0 0 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-04-23T00:00:00Z", "2026-04-23T22:00:00Z 2026-04-24T21:00:00Z"},
        {"a search that begins in the second hour", BERLIN, "30 2 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"},
        {"a search that begins at the end of the gap", BERLIN, "30 2 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
        {"a search that begins one second before it", BERLIN, "30 2 * * *", GAP_AFTER, FOLD_FIRST,
         "2026-03-29T00:59:59.999Z", "2026-03-29T01:00:00Z"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct zone zone = zone_bytes_rule(rows[i].zone);
        struct timetable table = table_of(rows[i].cron);
        table.gap = rows[i].gap;
        table.fold = rows[i].fold;
        check_fires(rows[i].sentence, &table, &zone, rows[i].after, rows[i].fires);
        zone_fini(&zone);
    }
}

CLAIM(remarks_on_the_effect_of_daylight_saving)
{
    struct zone zone = zone_bytes_rule(BERLIN);
    struct timetable table = table_of("30 2 * * *");
    struct timetable_fire fire;
    assert_int_equal(timetable_next(&table, &zone, ms_of("2026-03-28T12:00:00Z"), &fire),
                     TIMETABLE_FIRE);
    assert_int_equal(fire.remark, REMARK_MOVED);
    assert_int_equal(fire.local_s, ms_of("2026-03-29T02:30:00Z") / 1000);
    assert_int_equal(fire.offset_s, 7200);
    table.gap = GAP_SKIP;
    (void)timetable_next(&table, &zone, ms_of("2026-03-28T12:00:00Z"), &fire);
    assert_int_equal(fire.remark, REMARK_DROPPED);
    assert_int_equal(fire.local_s, ms_of("2026-03-29T02:30:00Z") / 1000);
    table.fold = FOLD_BOTH;
    (void)timetable_next(&table, &zone, ms_of("2026-10-24T12:00:00Z"), &fire);
    assert_int_equal(fire.remark, REMARK_FIRST);
    (void)timetable_next(&table, &zone, fire.at_ms, &fire);
    assert_int_equal(fire.remark, REMARK_SECOND);
    (void)timetable_next(&table, &zone, fire.at_ms, &fire);
    assert_int_equal(fire.remark, 0);
    zone_fini(&zone);
}

CLAIM(a_day_that_does_not_exist_has_no_fire)
{
    /* Apia: from -10 to +14 at the end of 29 December 2011. */
    const struct zone_bytes_change changes[] = {{1325239200, 14 * 3600}};
    struct timetable table = table_of("0 9 30 12 *");
    struct buffer bytes;
    struct zone zone;
    buffer_init(&bytes, 4096);
    zone_bytes_write(&bytes, -10 * 3600, changes, 1, "<+14>-14");
    assert_true(zone_parse(buffer_slice(&bytes), &zone));
    check_fires("30 December 2011", &table, &zone, "2011-01-01T00:00:00Z", "2012-12-29T19:00:00Z");
    zone_fini(&zone);
    buffer_fini(&bytes);
}

CLAIM(an_interval_counts_from_its_origin)
{
    struct timetable table = {.every_ms = 90 * 60 * 1000};
    check_fires("from the epoch", &table, NULL, "2026-03-01T00:10:00Z",
                "2026-03-01T01:30:00Z 2026-03-01T03:00:00Z");
    table.phase_ms = 60000;
    check_fires("with a phase", &table, NULL, "2026-03-01T00:10:00Z", "2026-03-01T01:31:00Z");
    table.start_ms = ms_of("2026-03-01T00:20:30.500Z");
    check_fires("from the start", &table, NULL, "2026-02-01T00:00:00Z",
                "2026-03-01T00:21:30.500Z 2026-03-01T01:51:30.500Z");
}

CLAIM(start_and_end_are_included)
{
    struct timetable table = table_of("0 * * * *");
    struct timetable_fire fire;
    table.start_ms = ms_of("2026-03-01T10:00:00Z");
    table.end_ms = ms_of("2026-03-01T12:00:00Z");
    check_fires("between them", &table, NULL, "2026-01-01T00:00:00Z",
                "2026-03-01T10:00:00Z 2026-03-01T11:00:00Z 2026-03-01T12:00:00Z");
    assert_int_equal(timetable_next(&table, NULL, table.end_ms, &fire), TIMETABLE_NONE);
}

CLAIM(any_of_several_expressions_fires)
{
    struct timetable table = table_of("0 9 * * *");
    char error[300];
    assert_true(
        cron_parse(slice_of("30 8-9 * * *"), slice_of("x"), &table.crons[1], error, sizeof error));
    assert_true(
        cron_parse(slice_of("0 9,17 * * *"), slice_of("x"), &table.crons[2], error, sizeof error));
    table.cron_count = 3;
    check_fires("each moment once", &table, NULL, "2026-03-01T00:00:00Z",
                "2026-03-01T08:30:00Z 2026-03-01T09:00:00Z 2026-03-01T09:30:00Z "
                "2026-03-01T17:00:00Z 2026-03-02T08:30:00Z");
}

CLAIM(exceptions_are_skipped)
{
    struct zone zone = zone_bytes_rule(BERLIN);
    struct timetable table = table_of("30 0,12 * * *");
    char error[300];
    table.days[0] = (int32_t)calendar_days(2026, 12, 24);
    table.day_count = 1;
    check_fires("a day of the zone, not of UTC", &table, &zone, "2026-12-23T12:00:00Z",
                "2026-12-24T23:30:00Z");
    assert_true(cron_parse(slice_of("* 0-6 25-26 12 *"), slice_of("x"), &table.except[0], error,
                           sizeof error));
    table.except_count = 1;
    check_fires("and an expression", &table, &zone, "2026-12-23T12:00:00Z",
                "2026-12-25T11:30:00Z 2026-12-26T11:30:00Z 2026-12-26T23:30:00Z");
    zone_fini(&zone);
}

CLAIM(a_long_exception_is_searched_in_parts)
{
    struct timetable table = {.every_ms = 1000};
    struct timetable_fire fire;
    char error[300];
    int64_t after_ms = ms_of("2026-03-01T00:00:00Z");
    int parts = 0;
    assert_true(
        cron_parse(slice_of("* * 1-7 3 *"), slice_of("x"), &table.except[0], error, sizeof error));
    table.except_count = 1;
    while (timetable_next(&table, NULL, after_ms, &fire) == TIMETABLE_LATER) {
        assert_true(fire.at_ms > after_ms);
        after_ms = fire.at_ms - 1;
        parts++;
    }
    assert_true(parts > 10);
    assert_int_equal(fire.at_ms, ms_of("2026-03-08T00:00:00Z"));
}

CLAIM(ends_before_the_year_2400)
{
    struct timetable table = table_of("0 0 1 1 *");
    struct timetable_fire fire;
    assert_int_equal(timetable_next(&table, NULL, TIMETABLE_END_MS - 1000, &fire), TIMETABLE_NONE);
}

CLAIMS_MAIN(NULL, NULL)
