/*
 * prometheus: the two text formats in which Prometheus reads metrics: its own of version 0.0.4, and
 * OpenMetrics 1.0. Pure. Rows of metrics are written by metric.h, which stands on this.
 *
 * Call prometheus_family once for a metric, then one of the others for each set of labels it is
 * kept under. Names and label keys must need no escaping; help and label values are escaped here
 * and are UTF-8. Values are whole numbers, or times, which are printed as seconds because that is
 * the base unit there. Names are those of samples in the first format: the second one calls a family
 * without `_total` or `_info`.
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

/* A list of labels ends with one whose key is NULL; NULL instead of a list: no labels. */
struct prometheus_label {
    const char *key;
    struct slice value;
};

const char *prometheus_content_type(enum prometheus_format format);
const char *prometheus_type_name(enum prometheus_type type);
/* "seconds" or "bytes", as the name says; NULL: no unit. */
const char *prometheus_unit(const char *name);

/* The lines # HELP and # TYPE, in OpenMetrics # UNIT. */
void prometheus_family(struct buffer *out, enum prometheus_format format, const char *name,
                       enum prometheus_type type, const char *help);

/* `units` of the value make one of what is printed: 1000 for milliseconds, printed as seconds. A
 * power of ten. */
void prometheus_sample(struct buffer *out, const char *name, const struct prometheus_label *labels,
                       int64_t value, uint64_t units);

/* name_bucket, name_sum and name_count; the bucket of +Inf is added. */
void prometheus_histogram(struct buffer *out, const char *name,
                          const struct prometheus_label *labels, const struct buckets *buckets,
                          const struct bucket_bounds *bounds);

/* The end of a page. */
void prometheus_end(struct buffer *out, enum prometheus_format format);

#endif
