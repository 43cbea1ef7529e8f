#include "base/metric.h"

#include <assert.h>

bool metric_is_bounded(const char *label)
{
    return strcmp(label, "topic") == 0 || strcmp(label, "endpoint") == 0;
}

void metric_begin(struct metric_page *page, const struct metric *metric)
{
    assert(metric->name && metric->help && metric->meaning);
    page->metric = metric;
    page->is_begun = false;
}

/* Writes the head before the first sample. */
static void page_begin_family(struct metric_page *page)
{
    const struct metric *metric = page->metric;
    if (!page->is_begun)
        prometheus_family(page->out, page->format, metric->name, metric->type, metric->help);
    page->is_begun = true;
}

/* Combines keys and values. Leaves out bounded labels if the page has no topics. */
static void join_labels(const struct metric_page *page, const struct slice *values,
                        struct prometheus_label out[METRIC_LABELS_MAX + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < METRIC_LABELS_MAX && page->metric->labels[i]; i++) {
        const char *key = page->metric->labels[i];
        assert(values);
        if (page->topics_max || !metric_is_bounded(key))
            out[count++] = (struct prometheus_label){.key = key, .value = values[i]};
    }
    out[count].key = NULL;
}

void metric_sample_time(struct metric_page *page, const struct slice *labels, int64_t value,
                        uint64_t units)
{
    struct prometheus_label joined[METRIC_LABELS_MAX + 1];
    assert(page->metric->type != PROMETHEUS_HISTOGRAM);
    page_begin_family(page);
    join_labels(page, labels, joined);
    prometheus_sample(page->out, page->metric->name, joined, value, units);
}

void metric_sample(struct metric_page *page, const struct slice *labels, uint64_t value)
{
    metric_sample_time(page, labels, value > INT64_MAX ? INT64_MAX : (int64_t)value, 1);
}

void metric_histogram(struct metric_page *page, const struct slice *labels,
                      const struct buckets *buckets, const struct bucket_bounds *bounds)
{
    struct prometheus_label joined[METRIC_LABELS_MAX + 1];
    assert(page->metric->type == PROMETHEUS_HISTOGRAM);
    page_begin_family(page);
    join_labels(page, labels, joined);
    prometheus_histogram(page->out, page->metric->name, joined, buckets, bounds);
}

void metric_histogram_of(struct metric_page *page, const struct slice *labels,
                         const struct histogram *histogram, const struct bucket_bounds *bounds)
{
    struct buckets buckets = {.sum = histogram->sum};
    uint64_t below = 0;
    for (uint32_t i = 0; i < bounds->count; i++) {
        uint64_t to = histogram_count_to(histogram, bounds->at[i]);
        counter_set(&buckets.counts[i], to - below);
        below = to;
    }
    counter_set(&buckets.counts[bounds->count], histogram->count - below);
    metric_histogram(page, labels, &buckets, bounds);
}

void metric_write(struct metric_page *page, const struct metric *metric, uint64_t value)
{
    metric_begin(page, metric);
    metric_sample(page, NULL, value);
}

void metric_write_time(struct metric_page *page, const struct metric *metric, int64_t value,
                       uint64_t units)
{
    metric_begin(page, metric);
    metric_sample_time(page, NULL, value, units);
}
