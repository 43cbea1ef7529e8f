#include "queue/lateness.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

enum { HOUR_MS = 3600 * 1000 };
static const int64_t now_ms = 1700000000000;

static void add(struct lateness *lateness, const char *topic, uint32_t attempt, int64_t late_ms,
                int64_t at_ms)
{
    const struct job job = {
        .topic = slice_of(topic), .attempt = attempt, .due_ms = at_ms - late_ms};
    lateness_add_job(lateness, JOB_WAY_TAKE, &job, at_ms);
}

static char text[64 * 1024];

/* The page of it. */
static const char *page_of(struct lateness *lateness, lateness_shows *shows)
{
    struct buffer out;
    struct metric_page page = {
        .out = &out, .format = PROMETHEUS_TEXT, .topics_max = lateness_topics_max(lateness)};
    uint32_t at = 0;
    buffer_init(&out, sizeof text);
    while (!lateness_emit_some(lateness, &page, &at, shows, NULL))
        ;
    snprintf(text, sizeof text, "%.*s", (int)out.len, out.at ? out.at : "");
    buffer_fini(&out);
    return text;
}

CLAIM(a_retry_is_not_late_but_an_attempt)
{
    struct lateness *lateness = lateness_new(10);
    add(lateness, "t", 1, 7, now_ms);
    add(lateness, "t", 3, 5000, now_ms);
    add(lateness, "t", 1, -4, now_ms); /* a clock that steps back: not late */
    const char *page = page_of(lateness, NULL);
    assert_non_null(strstr(page, "tarry_lateness_seconds_sum{topic=\"t\",way=\"take\"} 0.007\n"));
    assert_non_null(strstr(page, "tarry_lateness_seconds_count{topic=\"t\",way=\"take\"} 2\n"));
    assert_non_null(strstr(page, "attempts_bucket{topic=\"t\",way=\"take\",le=\"2.0\"} 2\n"));
    assert_non_null(strstr(page, "attempts_bucket{topic=\"t\",way=\"take\",le=\"3.0\"} 3\n"));
    lateness_free(lateness);
}

CLAIM(topics_beyond_the_bound_are_one)
{
    struct lateness *lateness = lateness_new(2);
    add(lateness, "a", 1, 0, now_ms);
    add(lateness, "b", 1, 0, now_ms);
    add(lateness, "c", 1, 0, now_ms);
    add(lateness, "d", 1, 0, now_ms);
    const char *page = page_of(lateness, NULL);
    assert_non_null(strstr(page, "tarry_lateness_seconds_count{topic=\"a\",way=\"take\"} 1\n"));
    assert_non_null(strstr(page, "seconds_count{topic=\"(others)\",way=\"take\"} 2\n"));
    assert_null(strstr(page, "topic=\"c\""));
    lateness_free(lateness);
}

CLAIM(a_topic_idle_for_an_hour_makes_room)
{
    struct lateness *lateness = lateness_new(2);
    add(lateness, "a", 1, 0, now_ms);
    add(lateness, "b", 1, 0, now_ms + HOUR_MS / 2);
    add(lateness, "c", 1, 0, now_ms + HOUR_MS - 1);
    assert_null(strstr(page_of(lateness, NULL), "topic=\"c\""));
    add(lateness, "c", 1, 0, now_ms + HOUR_MS + 1000);
    const char *page = page_of(lateness, NULL);
    assert_non_null(strstr(page, "tarry_lateness_seconds_count{topic=\"c\",way=\"take\"} 1\n"));
    assert_non_null(strstr(page, "topic=\"b\""));
    assert_null(strstr(page, "topic=\"a\""));
    lateness_free(lateness);
}

CLAIM(without_topics_there_is_one_series)
{
    struct lateness *lateness = lateness_new(0);
    add(lateness, "a", 1, 0, now_ms);
    add(lateness, "b", 1, 0, now_ms);
    const char *page = page_of(lateness, NULL);
    assert_non_null(strstr(page, "tarry_lateness_seconds_count{way=\"take\"} 2\n"));
    assert_null(strstr(page, "topic"));
    lateness_free(lateness);
}

static bool shows_b(void *ctx, struct slice topic)
{
    (void)ctx;
    return slice_is(topic, "b");
}

CLAIM(a_page_for_some_topics_has_no_others)
{
    struct lateness *lateness = lateness_new(2);
    add(lateness, "a", 1, 0, now_ms);
    add(lateness, "b", 1, 0, now_ms);
    add(lateness, "c", 1, 0, now_ms);
    const char *page = page_of(lateness, shows_b);
    assert_non_null(strstr(page, "topic=\"b\""));
    assert_null(strstr(page, "topic=\"a\""));
    assert_null(strstr(page, "others"));
    lateness_free(lateness);
}

CLAIM(no_lateness_is_above_the_greatest_one)
{
    struct lateness *lateness = lateness_new(2);
    struct buckets buckets = {0};
    add(lateness, "a", 1, 310000, now_ms);
    add(lateness, "a", 1, 20, now_ms);
    assert_int_equal(lateness_recent(lateness, slice_of("a"), now_ms, &buckets), 310000);
    assert_true(buckets_at(&buckets, &lateness_bounds, 0.99) > 310000); /* a bucket of 55 minutes */
    assert_int_equal(lateness_recent(lateness, slice_of("a"), now_ms + 70000, &buckets), 0);
    lateness_free(lateness);
}

static uint64_t recent(struct lateness *lateness, const char *topic, int64_t at_ms, uint64_t *p99)
{
    struct buckets buckets = {0};
    lateness_recent(lateness, slice_of(topic), at_ms, &buckets);
    *p99 = buckets_at(&buckets, &lateness_bounds, 0.99);
    return buckets_total(&buckets);
}

CLAIM(the_last_minute_is_forgotten_after_it)
{
    struct lateness *lateness = lateness_new(2);
    uint64_t p99;
    add(lateness, "a", 1, 5000, now_ms);
    add(lateness, "a", 1, 0, now_ms + 30000);
    add(lateness, "b", 1, 0, now_ms + 30000);
    assert_int_equal(recent(lateness, "a", now_ms + 31000, &p99), 2);
    assert_in_range(p99, 2000, 5000);
    assert_int_equal(recent(lateness, "", now_ms + 31000, &p99), 3);
    assert_int_equal(recent(lateness, "a", now_ms + 70000, &p99), 1);
    assert_int_equal(p99, 0);
    assert_int_equal(recent(lateness, "a", now_ms + 100000, &p99), 0);
    assert_int_equal(recent(lateness, "nobody", now_ms, &p99), 0);
    lateness_free(lateness);
}

CLAIMS_MAIN(NULL, NULL)
