/* The metrics of the event loops. */
#include "base/metric.h"
#include "net/reactor.h"

#include <stdio.h>

enum { ITERATION_DURATION, ITERATION_LONGEST, PROCESSOR, PROCESSOR_LONGEST, LAG, LETTERS, SLOW };

static const struct bucket_bounds loop_bounds = {.units = 1000000,
                                                 .count = 14,
                                                 .at = {100, 250, 500, 1000, 2000, 5000, 10000,
                                                        20000, 50000, 100000, 200000, 500000,
                                                        1000000, 5000000}};

static void emit_one(struct metric_page *page, int row, const struct slice *labels,
                     const struct reactor_figures *figures)
{
    if (row == ITERATION_DURATION)
        metric_histogram_of(page, labels, &figures->iteration_us, &loop_bounds);
    else if (row == PROCESSOR)
        metric_histogram_of(page, labels, &figures->processor_us, &loop_bounds);
    else if (row == LAG)
        metric_histogram_of(page, labels, &figures->late_us, &loop_bounds);
    else if (row == ITERATION_LONGEST)
        metric_sample_time(page, labels, (int64_t)figures->longest_of_minute_us, 1000000);
    else if (row == PROCESSOR_LONGEST)
        metric_sample_time(page, labels, (int64_t)figures->longest_processor_us, 1000000);
    else
        metric_sample(page, labels, figures->letters);
}

static void emit_slow(struct metric_page *page, const struct reactor *reactor)
{
    char text[12];
    int len = snprintf(text, sizeof text, "%u", reactor_index(reactor));
    const char *activity;
    uint64_t iterations;
    for (uint32_t i = 0; reactor_slow_activity(reactor, i, &activity, &iterations); i++)
        metric_sample(page, METRIC_LABELS(slice_make(text, (size_t)len), slice_of(activity)),
                      iterations);
}

void reactor_emit_metrics(struct reactor *const *reactors, uint32_t count, struct metric_page *page)
{
    for (int row = ITERATION_DURATION; row <= LETTERS; row++) {
        metric_begin(page, &reactor_metrics[row]);
        for (uint32_t i = 0; i < count; i++) {
            char text[12];
            int len = snprintf(text, sizeof text, "%u", reactor_index(reactors[i]));
            struct reactor_figures figures = {0};
            reactor_figures(reactors[i], &figures);
            emit_one(page, row, METRIC_LABELS(slice_make(text, (size_t)len)), &figures);
        }
    }
    metric_begin(page, &reactor_metrics[SLOW]);
    for (uint32_t i = 0; i < count; i++)
        emit_slow(page, reactors[i]);
}

const struct metric reactor_metrics[] = {
    [ITERATION_DURATION] =
        {.name = "tarry_loop_iteration_duration_seconds",
         .type = PROMETHEUS_HISTOGRAM,
         .labels = {"reactor"},
         .help = "Duration of an iteration of an event loop, without the time that it sleeps.",
         .meaning =
             "Nothing else runs on the loop during an iteration. The rate of its sum is the load "
             "of the loop: near 1 it is full, add `--shards`. Iterations over 10 ms delay jobs."},
    [ITERATION_LONGEST] =
        {.name = "tarry_loop_iteration_longest_seconds",
         .type = PROMETHEUS_GAUGE,
         .labels = {"reactor"},
         .help = "The longest iteration of the last minute.",
         .meaning = "Over 0.1 occasionally: the machine has too few processors, or swaps. "
                    "Regularly, on an idle machine: report it with the calls of that time."},
    [PROCESSOR] =
        {.name = "tarry_loop_iteration_processor_seconds",
         .type = PROMETHEUS_HISTOGRAM,
         .labels = {"reactor"},
         .help = "Processor time of an iteration of an event loop.",
         .meaning =
             "The work of an iteration, without the time in which the thread was ready and "
             "did not run. It is read once per 0.0005 of iterations; those between two readings "
             "count with their duration. Few iterations take more than 0.001, whatever clients "
             "send."},
    [PROCESSOR_LONGEST] =
        {.name = "tarry_loop_iteration_processor_longest_seconds",
         .type = PROMETHEUS_GAUGE,
         .labels = {"reactor"},
         .help = "The most processor time of an iteration of the last minute.",
         .meaning = "Much below `tarry_loop_iteration_longest_seconds`: the machine has too few "
                    "processors. Near it and over 0.02: report it with the calls of that time."},
    [LAG] = {.name = "tarry_loop_lag_seconds",
             .type = PROMETHEUS_HISTOGRAM,
             .labels = {"reactor"},
             .help = "Delay between a loop's deadlines and their execution.",
             .meaning =
                 "The machine adds this to every job's lateness. Grows: the loop is busy "
                 "(`tarry_loop_iteration_duration_seconds`), or the process gets no processor "
                 "time."},
    [LETTERS] = {.name = "tarry_loop_letters_total",
                 .type = PROMETHEUS_COUNTER,
                 .labels = {"reactor"},
                 .help = "Messages from other threads.",
                 .meaning = "Some for each commit, and with several shards some for each call "
                            "that another shard's loop answers."},
    [SLOW] =
        {.name = "tarry_loop_slow_iterations_total",
         .type = PROMETHEUS_COUNTER,
         .labels = {"reactor", "activity"},
         .help = "Iterations of an event loop that used at least 0.002 s of processor time, by the "
                 "activity that took the longest.",
         .meaning =
             "The activity that delays the other clients: the path of a call of HTTP or gRPC, an "
             "action of SQS, or a step of the server. `several`: no activity took half of the "
             "time. `unknown`: it has no name. Grows with a call: "
             "ask its clients for smaller pages or batches. Grows with a step: report it."},
    METRIC_END};
