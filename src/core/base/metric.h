/*
 * metric: what the server counts, as rows; and the page on which Prometheus reads it.
 *
 * A row says all there is to say of a metric: the page's help, `tarry help metrics` and
 * docs/metrics.md come from it. Each room ends the file that writes its metrics with the table of
 * their rows (METRIC_END behind the last), and server/metrics.c puts the tables together. A sample
 * has its labels from the row, in its order, so there is none without a row.
 *
 *     enum { CALLS, TIMES };
 *     const struct metric redis_metrics[] = {
 *         [CALLS] = {.name = "tarry_redis_calls_total", .type = PROMETHEUS_COUNTER,
 *                    .help = "Scripts sent to Redis.", .meaning = "…"},
 *         [TIMES] = {.name = "tarry_redis_round_trip_duration_seconds", .labels = {"shard"}, …},
 *         METRIC_END};
 *
 *     metric_write(page, &redis_metrics[CALLS], calls);
 *     metric_begin(page, &redis_metrics[TIMES]);
 *     for (…)
 *         metric_histogram(page, METRIC_LABELS(shard), &times[i], &bounds);
 *
 * A family's samples stand together: begin it once, then write them all. A page belongs to the
 * thread that writes it. What can go wrong: no memory, as with any buffer.
 */
#ifndef TARRY_BASE_METRIC_H
#define TARRY_BASE_METRIC_H

#include "base/histogram.h"
#include "base/prometheus.h"

enum { METRIC_LABELS_MAX = 4 };

struct metric {
    const char *name; /* as samples have it: `_total` for counters, base units at its end */
    enum prometheus_type type;
    const char *labels[METRIC_LABELS_MAX];
    const char *help;    /* one sentence */
    const char *meaning; /* what it tells where it moves, and what to do then; Markdown */
    const char *when;    /* it has samples then only: "with --amqp-in"; NULL: always */
};

#define METRIC_END                                                                                 \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* Rows under one heading. */
struct metric_table {
    const char *title;
    const struct metric *rows;
};

struct metric_page {
    struct buffer *out;
    enum prometheus_format format;
    /* So many values of a label that users make (METRIC_OTHERS stands for all others); 0: such labels
     * are left out, and there is one series for all. See metric_is_bounded. */
    uint32_t topics_max;
    const struct metric *metric; /* whose samples are written */
    bool is_begun;               /* its head stands on the page */
};

/* The value of the label in the series for all that have none of their own. No topic and no
 * endpoint can have that name. */
#define METRIC_OTHERS "(others)"

/* Values of a sample's labels, in the order of the row. */
#define METRIC_LABELS(...) ((const struct slice[METRIC_LABELS_MAX]){__VA_ARGS__})

/* Samples are of this metric from now on. Nothing is written where none follows. */
void metric_begin(struct metric_page *page, const struct metric *metric);
/* `labels` NULL: the row has none. */
void metric_sample(struct metric_page *page, const struct slice *labels, uint64_t value);
/* A time, of which `units` are a second: 1000 for milliseconds. */
void metric_sample_time(struct metric_page *page, const struct slice *labels, int64_t value,
                        uint64_t units);
void metric_histogram(struct metric_page *page, const struct slice *labels,
                      const struct buckets *buckets, const struct bucket_bounds *bounds);

/* The same of one whose values are finer; what lies within 1/32 above a bound may count as below it.
 * Its values are in `bounds->units`. */
void metric_histogram_of(struct metric_page *page, const struct slice *labels,
                         const struct histogram *histogram, const struct bucket_bounds *bounds);

/* A metric with one sample, without labels. */
void metric_write(struct metric_page *page, const struct metric *metric, uint64_t value);
void metric_write_time(struct metric_page *page, const struct metric *metric, int64_t value,
                       uint64_t units);

/* Labels whose values users make, as many as they like: "topic" and "endpoint". A room writes at most
 * page->topics_max of them, and sums the rest up. */
bool metric_is_bounded(const char *label);

#endif
