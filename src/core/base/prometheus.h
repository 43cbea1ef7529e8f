/*
 * prometheus: the two text formats in which Prometheus reads metrics: its own, version 0.0.4, and
 * OpenMetrics 1.0. Pure. metric.h, which uses this file, writes the rows of metrics.
 *
 * Call prometheus_family once for a metric, then one of the other functions for each of its sets of
 * labels. Names and label keys must need no escaping; help and label values are escaped here and
 * are UTF-8. Values are whole numbers, or times, which are printed in seconds, the base unit of
 * Prometheus. Names are those of samples in the first format: OpenMetrics names a family without
 * `_total` or `_info`.
 */
#ifndef TARRY_BASE_PROMETHEUS_H
#define TARRY_BASE_PROMETHEUS_H

#include "base/buckets.h"
#include "base/buffer.h"

enum prometheus_format { PROMETHEUS_TEXT = 1, PROMETHEUS_OPENMETRICS };

enum prometheus_type {
    PROMETHEUS_COUNTER = 1,
    PROMETHEUS_GAUGE,
    PROMETHEUS_HISTOGRAM,
    PROMETHEUS_INFO /* labels; the value is always 1 */
};

/* A label. A list of labels ends with a NULL key; a NULL list means no labels. */
struct prometheus_label {
    const char *key;
    struct slice value;
};

const char *prometheus_content_type(enum prometheus_format format);
const char *prometheus_type_name(enum prometheus_type type);
/* Returns "seconds" or "bytes", depending on the name; NULL: no unit. */
const char *prometheus_unit(const char *name);

/* Appends the lines # HELP and # TYPE, and # UNIT in OpenMetrics. */
void prometheus_family(struct buffer *out, enum prometheus_format format, const char *name,
                       enum prometheus_type type, const char *help);

/* Appends a sample. `units` of the value make one printed unit: 1000 for milliseconds, printed as
 * seconds. `units` is a power of ten. */
void prometheus_sample(struct buffer *out, const char *name, const struct prometheus_label *labels,
                       int64_t value, uint64_t units);

/* Appends name_bucket, name_sum and name_count; the bucket of +Inf is added. */
void prometheus_histogram(struct buffer *out, const char *name,
                          const struct prometheus_label *labels, const struct buckets *buckets,
                          const struct bucket_bounds *bounds);

/* Appends the end of a page. */
void prometheus_end(struct buffer *out, enum prometheus_format format);

#endif
