#include "base/metric.h"

#include "unit/cases.h"
#include "unit/claim.h"

static const struct metric rows[] = {
    {.name = "jobs",
     .type = PROMETHEUS_GAUGE,
     .labels = {"topic", "state"},
     .help = "Jobs.",
     .meaning = "m"},
    {.name = "took_seconds", .type = PROMETHEUS_HISTOGRAM, .help = "Took.", .meaning = "m"},
    METRIC_END};

static struct metric_page page_on(struct buffer *out, uint32_t topics_max)
{
    buffer_init(out, 4096);
    return (struct metric_page){.out = out, .format = PROMETHEUS_TEXT, .topics_max = topics_max};
}

CLAIM(labels_come_from_the_row)
{
    struct buffer out;
    struct metric_page page = page_on(&out, 1);
    metric_begin(&page, &rows[0]);
    metric_sample(&page, METRIC_LABELS(slice_of("a"), slice_of("ready")), 7);
    metric_sample(&page, METRIC_LABELS(slice_of("a"), slice_of("dead")), 0);
    assert_true(slice_is(buffer_slice(&out), "# HELP jobs Jobs.\n# TYPE jobs gauge\n"
                                             "jobs{topic=\"a\",state=\"ready\"} 7\n"
                                             "jobs{topic=\"a\",state=\"dead\"} 0\n"));
    buffer_fini(&out);
}

CLAIM(a_family_without_samples_is_not_on_the_page)
{
    struct buffer out;
    struct metric_page page = page_on(&out, 1);
    metric_begin(&page, &rows[0]);
    metric_begin(&page, &rows[1]);
    assert_int_equal(out.len, 0);
    buffer_fini(&out);
}

CLAIM(a_page_without_topics_has_no_topic_label)
{
    struct buffer out;
    struct metric_page page = page_on(&out, 0);
    metric_begin(&page, &rows[0]);
    metric_sample(&page, METRIC_LABELS(slice_of(METRIC_OTHERS), slice_of("ready")), 7);
    assert_true(slice_is(buffer_slice(&out), "# HELP jobs Jobs.\n# TYPE jobs gauge\n"
                                             "jobs{state=\"ready\"} 7\n"));
    buffer_fini(&out);
}

CLAIM(a_fine_histogram_is_shown_by_a_few_bounds)
{
    static const struct bucket_bounds bounds = {.units = 1000, .count = 2, .at = {10, 1000}};
    static struct histogram histogram;
    struct buffer out;
    struct metric_page page = page_on(&out, 1);
    histogram_add(&histogram, 10);
    histogram_add(&histogram, 20);
    histogram_add(&histogram, 5000);
    metric_begin(&page, &rows[1]);
    metric_histogram_of(&page, NULL, &histogram, &bounds);
    assert_true(slice_is(buffer_slice(&out), "# HELP took_seconds Took.\n"
                                             "# TYPE took_seconds histogram\n"
                                             "took_seconds_bucket{le=\"0.01\"} 1\n"
                                             "took_seconds_bucket{le=\"1.0\"} 2\n"
                                             "took_seconds_bucket{le=\"+Inf\"} 3\n"
                                             "took_seconds_sum 5.03\n"
                                             "took_seconds_count 3\n"));
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
