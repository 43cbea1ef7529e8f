#include "base/timestamp.h"
#include "schedule/spec.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/schedule/zone_bytes.h"

#include <stdio.h>
#include <string.h>

/* A spec, read from JSON, and the memory behind it. */
struct reading {
    struct spec spec;
    struct buffer arena;
    char error[SPEC_ERROR_BYTES];
    bool is_good;
};

static struct reading *reading_of(const char *json)
{
    static struct reading reading;
    struct json_value object;
    buffer_fini(&reading.arena);
    buffer_init(&reading.arena, 1 << 16);
    assert_non_null(buffer_reserve(&reading.arena, 1 << 14));
    reading.error[0] = 0;
    if (!json_check(slice_of(json), &object, NULL))
        fail_msg("not JSON: %s", json);
    reading.is_good =
        spec_read(object, slice_of("report"), &reading.arena, &reading.spec, reading.error);
    return &reading;
}

static int free_arena(void **state)
{
    (void)state;
    buffer_fini(&reading_of("{}")->arena);
    return 0;
}

CLAIM(refusals_name_the_member_and_the_remedy)
{
    static const struct {
        const char *json, *named, *remedy;
    } rows[] = {
        {"{}", "'cron'", "\"every\":\"15m\""},
        {"{\"cron\":\"0 9 * * *\",\"every\":\"1h\"}", "'every'", "choose one"},
        {"{\"cron\":\"0 25 * * *\"}", "'cron'", "write 0 to 23"},
        {"{\"cron\":[\"0 9 * * *\",\"x\"]}", "'cron'", "write 5"},
        {"{\"cron\":[]}", "'cron'", "0 9 * * MON-FRI"},
        {"{\"cron\":5}", "'cron'", "0 9 * * MON-FRI"},
        {"{\"cron\":\"0 0 31 2 *\"}", "'cron'", "change the day"},
        {"{\"every\":\"500ms\"}", "'every'", "from 1s"},
        {"{\"every\":\"366d\"}", "'every'", "to 365d"},
        {"{\"every\":60}", "'every'", "\"15m\""},
        {"{\"every\":\"60\"}", "'every'", "\"15m\""},
        {"{\"every\":\"1h\",\"phase\":\"1h\"}", "'phase'", "shorter than 'every'"},
        {"{\"cron\":\"0 9 * * *\",\"phase\":\"1m\"}", "'phase'", "only to 'every'"},
        {"{\"every\":\"1h\",\"zone\":\"../etc\"}", "'zone'", "Europe/Berlin"},
        {"{\"every\":\"1h\",\"except\":[\"2026-02-30\"]}", "'except'", "does not exist"},
        {"{\"every\":\"1h\",\"except\":[\"2026-2-03\"]}", "'except'", "2026-12-24"},
        {"{\"every\":\"1h\",\"except\":[7]}", "'except'", "2026-12-24"},
        {"{\"every\":\"1h\",\"start\":\"tomorrow\"}", "'start'", "2026-11-20T09:00:00Z"},
        {"{\"every\":\"1h\",\"start\":\"2027-01-01T00:00:00Z\",\"end\":\"2026-01-01T00:00:00Z\"}",
         "'end'", "exchange"},
        {"{\"every\":\"1h\",\"count\":0}", "'count'", "from 1"},
        {"{\"every\":\"1h\",\"count\":\"5\"}", "'count'", "from 1"},
        {"{\"every\":\"1h\",\"gap\":\"before\"}", "'gap'", "\"skip\""},
        {"{\"every\":\"1h\",\"fold\":\"none\"}", "'fold'", "\"both\""},
        {"{\"every\":\"1h\",\"missed\":\"some\"}", "'missed'", "\"all\""},
        {"{\"every\":\"1h\",\"overlap\":\"yes\"}", "'overlap'", "\"skip\""},
        {"{\"every\":\"1h\",\"paused\":\"yes\"}", "'paused'", "true or false"},
        {"{\"every\":\"1h\",\"jitter\":\"25h\"}", "'jitter'", "up to 24h"},
        {"{\"every\":\"1h\",\"note\":\"a\\nb\"}", "'note'", "control characters"},
        {"{\"every\":\"1h\",\"every\":\"2h\"}", "'every'", "remove one"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct reading *reading = reading_of(rows[i].json);
        if (reading->is_good)
            fail_msg("%s was accepted", rows[i].json);
        if (!strstr(reading->error, rows[i].named) || !strstr(reading->error, rows[i].remedy))
            fail_msg("%s: \"%s\"", rows[i].json, reading->error);
    }
}

CLAIM(equal_plans_have_equal_texts)
{
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"{\"every\":\"60m\",\"zone\":\"UTC\",\"missed\":\"last\"}", "\"every\":\"1h\""},
        {"{\"topic\":\"mail\",\"every\":\"1h\",\"grace\":\"60s\"}", "\"every\":\"1h\""},
        {"{\"zone\":\"Europe/Berlin\",\"cron\":\"0 9 * * *\"}",
         "\"cron\":\"0 9 * * *\",\"zone\":\"Europe/Berlin\""},
        {"{\"cron\":[\"0 9 * * *\",\"0 12 * * SAT\"],\"paused\":true}",
         "\"cron\":[\"0 9 * * *\",\"0 12 * * SAT\"],\"paused\":true"},
        {"{\"every\":\"1h\",\"phase\":\"90s\",\"except\":[\"2026-12-24\",\"* * 1 1 "
         "*\"],\"count\":3}",
         "\"every\":\"1h\",\"phase\":\"1m30s\",\"except\":[\"* * 1 1 "
         "*\",\"2026-12-24\"],\"count\":3"},
        {"{\"every\":\"1h\",\"start\":1767225600000}", NULL},
        {"{\"every\":\"1h\",\"start\":\"2026-01-01T01:00:00+01:00\",\"missed\":\"all\",\"overlap\":"
         "\"skip\","
         "\"catch_up\":\"0\",\"note\":\"n\",\"owner\":\"shop\",\"gap\":\"skip\",\"fold\":\"both\"}",
         "\"every\":\"1h\",\"start\":\"2026-01-01T00:00:00.000Z\",\"gap\":\"skip\",\"fold\":"
         "\"both\","
         "\"missed\":\"all\",\"catch_up\":\"0\",\"overlap\":\"skip\",\"note\":\"n\",\"owner\":"
         "\"shop\""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct reading *reading = reading_of(rows[i].json);
        struct buffer text;
        if (!rows[i].text) {
            assert_false(reading->is_good);
            continue;
        }
        if (!reading->is_good)
            fail_msg("%s: %s", rows[i].json, reading->error);
        buffer_init(&text, 4096);
        spec_write(&text, &reading->spec);
        if (!slice_is(buffer_slice(&text), rows[i].text))
            fail_msg("%s: %.*s", rows[i].json, (int)text.len, text.at);
        buffer_fini(&text);
    }
}

CLAIM(written_specifications_can_be_read)
{
    char json[2048];
    struct buffer text, again;
    buffer_init(&text, 4096);
    buffer_init(&again, 4096);
    spec_write(
        &text,
        &reading_of("{\"cron\":\"H 9 * * *\",\"except\":[\"2026-12-24\"],\"zone\":\"Asia/Tokyo\","
                    "\"jitter\":\"5m\",\"end\":\"2027-01-01T00:00:00Z\",\"count\":7}")
             ->spec);
    (void)snprintf(json, sizeof json, "{%.*s}", (int)text.len, text.at);
    assert_true(reading_of(json)->is_good);
    spec_write(&again, &reading_of(json)->spec);
    assert_true(slice_equals(buffer_slice(&text), buffer_slice(&again)));
    buffer_fini(&text);
    buffer_fini(&again);
}

CLAIM(members_of_jobs_are_left_to_the_caller)
{
    assert_true(spec_has_member(slice_of("\"cron\"")));
    assert_false(spec_has_member(slice_of("\"topic\"")));
    assert_false(spec_has_member(slice_of("\"body\"")));
    assert_true(reading_of("{\"topic\":7,\"body\":{\"cron\":1},\"every\":\"1m\"}")->is_good);
}

CLAIM(a_schedule_that_never_fires_is_refused)
{
    int64_t now_ms;
    assert_true(timestamp_parse(slice_of("2026-03-01T00:00:00Z"), &now_ms));
    static const char *const never[] = {
        "{\"cron\":\"0 0 0 1 1 * 2025\"}",
        "{\"cron\":\"0 9 * * *\",\"end\":\"2026-02-01T00:00:00Z\"}",
        "{\"cron\":\"0 9 25 * *\",\"end\":\"2026-03-24T00:00:00Z\"}",
    };
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        struct reading *reading = reading_of(never[i]);
        assert_true(reading->is_good);
        assert_false(spec_check(&reading->spec, NULL, now_ms, reading->error));
        assert_non_null(strstr(reading->error, "never fires"));
    }
    assert_true(spec_check(&reading_of("{\"every\":\"1h\"}")->spec, NULL, now_ms, NULL));
}

CLAIM(jitter_is_shorter_than_the_time_between_fires)
{
    struct reading *reading = reading_of("{\"cron\":\"0,10 9 * * *\",\"jitter\":\"11m\"}");
    assert_false(spec_check(&reading->spec, NULL, 0, reading->error));
    assert_non_null(strstr(reading->error, "'jitter'"));
    reading = reading_of("{\"cron\":\"0,10 9 * * *\",\"jitter\":\"10m\"}");
    assert_true(spec_check(&reading->spec, NULL, 0, reading->error));
}

CLAIM(jitter_is_the_same_on_each_server)
{
    const struct spec *spec = &reading_of("{\"every\":\"1h\",\"jitter\":\"10m\"}")->spec;
    int64_t seen_min = INT64_MAX, seen_max = -1;
    for (int i = 0; i < 1000; i++) {
        int64_t shift = spec_jitter(spec, slice_of("report"), i * 3600000LL);
        assert_int_equal(shift, spec_jitter(spec, slice_of("report"), i * 3600000LL));
        assert_in_range(shift, 0, 600000);
        seen_min = shift < seen_min ? shift : seen_min;
        seen_max = shift > seen_max ? shift : seen_max;
    }
    assert_true(seen_min < 60000 && seen_max > 540000);
}

CLAIM(names_are_ids_without_an_at_sign)
{
    char longest[SPEC_NAME_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    assert_true(spec_name_is_valid(slice_of("shop/nightly-report:1")));
    assert_true(spec_name_is_valid(slice_make(longest, SPEC_NAME_BYTES_MAX)));
    assert_false(spec_name_is_valid(slice_make(longest, SPEC_NAME_BYTES_MAX + 1)));
    assert_false(spec_name_is_valid(slice_of("")));
    assert_false(spec_name_is_valid(slice_of("a@b")));
    assert_false(spec_name_is_valid(slice_of("a b")));
    assert_false(spec_name_is_valid(slice_of(".")));
    assert_false(spec_name_is_valid(slice_of("..")));
}

CLAIMS_MAIN(NULL, free_arena)
