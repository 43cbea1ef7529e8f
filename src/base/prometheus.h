/*
 * prometheus: metrics in the text format of Prometheus, version 0.0.4. Pure.
 *
 * Call prometheus_family once for a metric, then one of the others for each set of labels it is
 * kept under. Names and label keys must need no escaping; help and label values are escaped here
 * and are UTF-8. Values are whole numbers, or times, which are printed as seconds because that is
 * the base unit there.
 */
#ifndef TARRY_BASE_PROMETHEUS_H
#define TARRY_BASE_PROMETHEUS_H

#include "base/buffer.h"
#include "base/histogram.h"

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prometheus_type { PROMETHEUS_COUNTER = 1, PROMETHEUS_GAUGE, PROMETHEUS_HISTOGRAM };

/* A list of labels ends with one whose key is NULL; NULL instead of a list: no labels. */
struct prometheus_label {
    const char *key;
    struct slice value;
};

/* The lines # HELP and # TYPE. */
void prometheus_family(struct buffer *out, const char *name, enum prometheus_type type,
                       const char *help);

void prometheus_sample(struct buffer *out, const char *name, const struct prometheus_label *labels,
                       int64_t value);
void prometheus_sample_seconds(struct buffer *out, const char *name,
                               const struct prometheus_label *labels, int64_t value_ms);

/*
 * name_bucket, name_sum and name_count of a histogram of times. `units_per_ms` says what its values
 * are: 1 for milliseconds, 1000 for microseconds. `bounds_ms` rise, `bound_count` of them; the
 * bucket of +Inf is added. What lies within 1/32 above a bound may count as below it.
 */
void prometheus_histogram(struct buffer *out, const char *name,
                          const struct prometheus_label *labels, const struct histogram *histogram,
                          uint64_t units_per_ms, const uint32_t *bounds_ms, size_t bound_count);

#endif
