/*
 * metric: the server's metrics as table rows, and the page that Prometheus reads.
 *
 * A row documents a metric completely: the help on the page, `tarry help metrics` and
 * docs/metrics.md are generated from it. A file that writes metrics ends with the table of their
 * rows (METRIC_END is the last), and server/metrics.c combines the tables. A sample takes its labels from the row, in the row's order, so every sample has a row.
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
 * The samples of a family are contiguous: begin it once, then write them all. A page belongs to the
 * thread that writes it. Out of memory is handled as in any buffer.
 */
#ifndef TARRY_BASE_METRIC_H
#define TARRY_BASE_METRIC_H

#include "base/histogram.h"
#include "base/prometheus.h"

enum { METRIC_LABELS_MAX = 4 };

struct metric {
    const char *name; /* name of the samples: ends with `_total` for counters, uses base units */
    enum prometheus_type type;
    const char *labels[METRIC_LABELS_MAX];
    const char *help;    /* one sentence */
    const char *meaning; /* the meaning of a change, and what to do then; Markdown */
    const char *when;    /* when it has samples: "with --amqp-in"; NULL: always */
};

#define METRIC_END                                                                                 \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* A group of rows under one heading. */
struct metric_table {
    const char *title;
    const struct metric *rows;
};

struct metric_page {
    struct buffer *out;
    enum prometheus_format format;
    /* The maximum number of values of a user-defined label (METRIC_OTHERS represents all others);
     * 0: such labels are omitted, and there is one series for all. See metric_is_bounded. */
    uint32_t topics_max;
    const struct metric *metric; /* the metric whose samples are written */
    bool is_begun;               /* its head has been written */
};

/* The label value of the series for all topics or endpoints without their own series. A topic or
 * endpoint cannot have this name. */
#define METRIC_OTHERS "(others)"

/* The label values of a sample, in the order of the row. */
#define METRIC_LABELS(...) ((const struct slice[METRIC_LABELS_MAX]){__VA_ARGS__})

/* Begins the samples of this metric. Writes nothing if no sample follows. */
void metric_begin(struct metric_page *page, const struct metric *metric);
/* Writes a sample. `labels` NULL: the row has no labels. */
void metric_sample(struct metric_page *page, const struct slice *labels, uint64_t value);
/* Writes a time with `units` per second: 1000 for milliseconds. */
void metric_sample_time(struct metric_page *page, const struct slice *labels, int64_t value,
                        uint64_t units);
void metric_histogram(struct metric_page *page, const struct slice *labels,
                      const struct buckets *buckets, const struct bucket_bounds *bounds);

/* Writes a histogram from one with a finer resolution. A value up to 1/32 above a bound may be
 * counted as below it. The values are in `bounds->units`. */
void metric_histogram_of(struct metric_page *page, const struct slice *labels,
                         const struct histogram *histogram, const struct bucket_bounds *bounds);

/* Writes a metric with one sample and no labels. */
void metric_write(struct metric_page *page, const struct metric *metric, uint64_t value);
void metric_write_time(struct metric_page *page, const struct metric *metric, int64_t value,
                       uint64_t units);

/* Returns whether the number of this label's values is unbounded because users create them: "topic"
 * and "endpoint". A room writes at most page->topics_max of them and adds up the rest. */
bool metric_is_bounded(const char *label);

#endif
