#include "base/prometheus.h"

#include "unit/cases.h"
#include "unit/claim.h"

CLAIM(writes_a_family_with_its_samples)
{
    const struct prometheus_label labels[] = {
        {"topic", {"orders", 6}}, {"state", {"ready", 5}}, {0}};
    struct buffer out;

    buffer_init(&out, 4096);
    prometheus_family(&out, PROMETHEUS_TEXT, "tarry_jobs", PROMETHEUS_GAUGE, "Jobs by state.");
    prometheus_sample(&out, "tarry_jobs", labels, 42, 1);
    prometheus_sample(&out, "tarry_jobs", NULL, -1, 1);
    prometheus_sample(&out, "tarry_jobs", labels + 2, 0, 1);
    prometheus_family(&out, PROMETHEUS_TEXT, "tarry_pushed_total", PROMETHEUS_COUNTER, "Pushes.");
    assert_true(slice_is(buffer_slice(&out), "# HELP tarry_jobs Jobs by state.\n"
                                             "# TYPE tarry_jobs gauge\n"
                                             "tarry_jobs{topic=\"orders\",state=\"ready\"} 42\n"
                                             "tarry_jobs -1\n"
                                             "tarry_jobs 0\n"
                                             "# HELP tarry_pushed_total Pushes.\n"
                                             "# TYPE tarry_pushed_total counter\n"));
    buffer_fini(&out);
}

CLAIM(escapes_help_and_label_values)
{
    const struct prometheus_label labels[] = {{"path", {"C:\\\"a\"\n", 7}}, {0}};
    struct buffer out;

    buffer_init(&out, 4096);
    prometheus_family(&out, PROMETHEUS_TEXT, "x", PROMETHEUS_GAUGE, "a \\ \"b\"\nc");
    prometheus_sample(&out, "x", labels, 1, 1);
    assert_true(slice_is(buffer_slice(&out), "# HELP x a \\\\ \"b\"\\nc\n"
                                             "# TYPE x gauge\n"
                                             "x{path=\"C:\\\\\\\"a\\\"\\n\"} 1\n"));
    buffer_fini(&out);
}

CLAIM(writes_times_as_exact_seconds)
{
    static const struct {
        int64_t ms;
        const char *line;
    } rows[] = {{0, "t 0\n"},
                {1, "t 0.001\n"},
                {10, "t 0.01\n"},
                {500, "t 0.5\n"},
                {1000, "t 1\n"},
                {61500, "t 61.5\n"},
                {-1, "t -0.001\n"},
                {-2500, "t -2.5\n"},
                {INT64_MAX, "t 9223372036854775.807\n"},
                {INT64_MIN, "t -9223372036854775.808\n"}};
    struct buffer out;

    buffer_init(&out, 4096);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        buffer_clear(&out);
        prometheus_sample(&out, "t", NULL, rows[i].ms, 1000);
        CASE_HOLDS(rows[i].line, slice_is(buffer_slice(&out), rows[i].line));
    }
    buffer_fini(&out);
}

CLAIM(writes_a_histogram_with_cumulative_buckets)
{
    static const struct bucket_bounds bounds = {
        .units = 1000000, .count = 4, .at = {1000, 10000, 500000, 60000000}};
    const struct prometheus_label labels[] = {{"topic", {"a", 1}}, {0}};
    struct buckets buckets = {0};
    struct buffer out;

    buffer_init(&out, 4096);
    buckets_add(&buckets, &bounds, 1000);     /* 1 ms: a bound is in its bucket */
    buckets_add(&buckets, &bounds, 2000);     /* 2 ms */
    buckets_add(&buckets, &bounds, 400000);   /* 400 ms */
    buckets_add(&buckets, &bounds, 90000000); /* 90 s */
    prometheus_histogram(&out, "late_seconds", labels, &buckets, &bounds);
    assert_true(slice_is(buffer_slice(&out), "late_seconds_bucket{topic=\"a\",le=\"0.001\"} 1\n"
                                             "late_seconds_bucket{topic=\"a\",le=\"0.01\"} 2\n"
                                             "late_seconds_bucket{topic=\"a\",le=\"0.5\"} 3\n"
                                             "late_seconds_bucket{topic=\"a\",le=\"60.0\"} 3\n"
                                             "late_seconds_bucket{topic=\"a\",le=\"+Inf\"} 4\n"
                                             "late_seconds_sum{topic=\"a\"} 90.403\n"
                                             "late_seconds_count{topic=\"a\"} 4\n"));
    buffer_fini(&out);
}

CLAIM(writes_a_histogram_without_labels_or_bounds)
{
    static const struct bucket_bounds none = {.units = 1};
    static const struct buckets empty;
    struct buffer out;

    buffer_init(&out, 4096);
    prometheus_histogram(&out, "h", NULL, &empty, &none);
    assert_true(slice_is(buffer_slice(&out), "h_bucket{le=\"+Inf\"} 0\nh_sum 0\nh_count 0\n"));
    buffer_fini(&out);
}

CLAIM(families_of_openmetrics_have_units_and_no_suffix)
{
    struct buffer out;

    buffer_init(&out, 4096);
    prometheus_family(&out, PROMETHEUS_OPENMETRICS, "a_seconds_total", PROMETHEUS_COUNTER, "\"q\"");
    prometheus_family(&out, PROMETHEUS_OPENMETRICS, "b_bytes", PROMETHEUS_GAUGE, "b");
    prometheus_family(&out, PROMETHEUS_OPENMETRICS, "c_info", PROMETHEUS_INFO, "c");
    prometheus_family(&out, PROMETHEUS_OPENMETRICS, "d", PROMETHEUS_GAUGE, "d");
    prometheus_end(&out, PROMETHEUS_OPENMETRICS);
    assert_true(slice_is(buffer_slice(&out),
                         "# HELP a_seconds \\\"q\\\"\n# TYPE a_seconds counter\n"
                         "# UNIT a_seconds seconds\n"
                         "# HELP b_bytes b\n# TYPE b_bytes gauge\n"
                         "# UNIT b_bytes bytes\n"
                         "# HELP c c\n# TYPE c info\n"
                         "# HELP d d\n# TYPE d gauge\n"
                         "# EOF\n"));
    buffer_clear(&out);
    prometheus_family(&out, PROMETHEUS_TEXT, "c_info", PROMETHEUS_INFO, "c");
    prometheus_end(&out, PROMETHEUS_TEXT);
    assert_true(slice_is(buffer_slice(&out), "# HELP c_info c\n# TYPE c_info gauge\n"));
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
