#include "base/timestamp.h"
#include "schedule/zone.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/schedule/zone_bytes.h"
#include "unit/seed.h"

static int64_t seconds(const char *time)
{
    int64_t ms;
    assert_true(timestamp_parse(slice_of(time), &ms));
    return ms / 1000;
}

CLAIM(follows_the_rule_at_the_end)
{
    static const struct {
        const char *rule, *at;
        int32_t offset_s;
    } rows[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T00:59:59Z", 3600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00:00Z", 7200},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T00:59:59Z", 7200},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T01:00:00Z", 3600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2399-07-01T00:00:00Z", 7200},
        {"EST5EDT,M3.2.0,M11.1.0", "2026-03-08T06:59:59Z", -18000},
        {"EST5EDT,M3.2.0,M11.1.0", "2026-03-08T07:00:00Z", -14400},
        {"EST5EDT,M3.2.0,M11.1.0", "2026-11-01T06:00:00Z", -18000},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-01-01T00:00:00Z", 39600}, /* the south */
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-04-04T16:00:00Z", 36000},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-10-03T15:59:59Z", 36000},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-07-01T00:00:00Z", 3600}, /* winter is the exception */
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-12-01T00:00:00Z", 0},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-01-01T00:00:00Z", 39600},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-07-01T00:00:00Z", 37800},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T00:59:59Z", -7200}, /* a negative time */
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00:00Z", -3600},
        {"IST-2IDT,M3.4.4/26,M10.5.0", "2026-03-26T23:59:59Z", 7200}, /* a time after midnight */
        {"IST-2IDT,M3.4.4/26,M10.5.0", "2026-03-27T00:00:00Z", 10800},
        {"XST0XDT,J60,J300", "2028-03-01T01:59:59Z", 0}, /* 29 February does not count */
        {"XST0XDT,J60,J300", "2028-03-01T02:00:00Z", 3600},
        {"XST0XDT,59,299", "2028-02-29T02:00:00Z", 3600}, /* here it does */
        {"<+0545>-5:45", "2026-01-01T00:00:00Z", 20700},
        {"UTC0", "2026-01-01T00:00:00Z", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct zone zone = zone_bytes_rule(rows[i].rule);
        struct zone_span span;
        int64_t at_s = seconds(rows[i].at);
        if (!zone.has_summer) /* such a rule repeats the last offset of the file */
            zone.first_offset_s = zone.standard_s;
        zone_span_at(&zone, at_s, &span);
        if (span.offset_s != rows[i].offset_s)
            fail_msg("%s at %s: %d", rows[i].rule, rows[i].at, (int)span.offset_s);
        assert_true(span.start_s <= at_s && at_s < span.end_s);
        zone_fini(&zone);
    }
}

CLAIM(spans_join_without_gaps)
{
    struct zone zone = zone_bytes_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    struct zone_span span, next;
    zone_span_at(&zone, 0, &span);
    for (int i = 0; i < 800; i++) {
        zone_span_at(&zone, span.end_s, &next);
        assert_int_equal(next.start_s, span.end_s);
        assert_int_equal(next.before_s, span.offset_s);
        assert_int_equal(next.offset_s, span.after_s);
        assert_true(next.end_s > next.start_s);
        span = next;
    }
    zone_fini(&zone);
}

CLAIM(changes_of_the_file_come_before_the_rule)
{
    const struct zone_bytes_change changes[] = {
        {-1000000, 1800}, {1000000, 3600}, {2000000, 3600}, {3000000, 5400}};
    struct buffer bytes;
    struct zone zone;
    struct zone_span span;
    buffer_init(&bytes, 4096);
    zone_bytes_write(&bytes, 900, changes, COUNT_OF(changes), "CET-1CEST,M3.5.0,M10.5.0/3");
    assert_true(zone_parse(buffer_slice(&bytes), &zone));
    zone_span_at(&zone, 0, &span);
    assert_int_equal(span.offset_s, 1800);
    assert_int_equal(span.end_s, 1000000);
    assert_int_equal(span.after_s, 3600);
    zone_span_at(&zone, 2500000, &span); /* a change to the same offset is not one */
    assert_int_equal(span.start_s, 1000000);
    assert_int_equal(span.before_s, 1800);
    assert_int_equal(span.end_s, 3000000);
    zone_span_at(&zone, 3000000, &span);
    assert_int_equal(span.offset_s, 5400);
    assert_int_equal(span.end_s, seconds("1970-03-29T01:00:00Z"));
    assert_int_equal(span.after_s, 7200);
    zone_fini(&zone);
    buffer_fini(&bytes);
}

CLAIM(utc_has_one_span)
{
    struct zone_span span;
    zone_span_at(NULL, 12345, &span);
    assert_int_equal(span.offset_s, 0);
    assert_int_equal(span.start_s, INT64_MIN);
    assert_int_equal(span.end_s, INT64_MAX);
}

CLAIM(refuses_malformed_rules)
{
    static const char *const rules[] = {"C1",
                                        "CET",
                                        "CET-1CEST",
                                        "CET-1CEST,M3",
                                        "CET-168",
                                        "CET-1CEST,M13.1.0,M1.1.0",
                                        "CET-1CEST,M3.6.0,M10.5.0",
                                        "CET-1CEST,M3.5.7,M10.5.0",
                                        "CET-1CEST,J0,J300",
                                        "CET-1CEST,1,366",
                                        "CET-1CEST,M3.5.0,M10.5.0/3x",
                                        "<CET-1",
                                        "CET-1:60"};
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct buffer bytes;
        struct zone zone;
        buffer_init(&bytes, 4096);
        zone_bytes_write(&bytes, 0, NULL, 0, rules[i]);
        if (zone_parse(buffer_slice(&bytes), &zone))
            fail_msg("'%s' was accepted", rules[i]);
        buffer_fini(&bytes);
    }
}

CLAIM(refuses_or_survives_any_damage)
{
    const struct zone_bytes_change changes[] = {{1000000, 3600}, {3000000, 5400}};
    struct random random = seed_random("refuses_or_survives_any_damage");
    struct buffer bytes;
    buffer_init(&bytes, 4096);
    zone_bytes_write(&bytes, 900, changes, COUNT_OF(changes), "CET-1CEST,M3.5.0,M10.5.0/3");
    for (size_t len = 0; len < bytes.len; len++) {
        struct zone zone;
        assert_false(zone_parse(slice_make(bytes.at, len), &zone));
    }
    for (int i = 0; i < 20000; i++) {
        char copy[1024];
        struct zone zone;
        struct zone_span span;
        assert_true(bytes.len <= sizeof copy);
        memcpy(copy, bytes.at, bytes.len);
        for (int n = 0; n < 3; n++)
            copy[random_next(&random) % bytes.len] = (char)random_next(&random);
        if (!zone_parse(slice_make(copy, bytes.len), &zone))
            continue;
        zone_span_at(&zone, (int64_t)(random_next(&random) % 13000000000), &span);
        assert_true(span.start_s < span.end_s);
        zone_fini(&zone);
    }
    buffer_fini(&bytes);
}

CLAIM(a_name_is_a_path_below_the_directory)
{
    static const struct {
        const char *name;
        bool is_valid;
    } rows[] = {
        {"UTC", true},
        {"Europe/Berlin", true},
        {"America/Argentina/Ushuaia", true},
        {"Etc/GMT+5", true},
        {"", false},
        {"/etc/passwd", false},
        {"../passwd", false},
        {"Europe/../../x", false},
        {"Europe//Berlin", false},
        {"Europe/", false},
        {"Europe/.x", false},
        {"localtime", false},
        {"posixrules", false},
        {"Europe/Ber lin", false},
        {"Europe/Berlin\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (zone_name_is_valid(slice_of(rows[i].name)) != rows[i].is_valid)
            fail_msg("'%s'", rows[i].name);
}

CLAIMS_MAIN(NULL, NULL)
