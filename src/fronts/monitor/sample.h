/*
 * sample: the state of the server at a moment: its topics with their figures and rates.
 *
 * A finished sample is read-only, shared by all fronts and reference-counted. Any thread.
 */
#ifndef TARRY_MONITOR_SAMPLE_H
#define TARRY_MONITOR_SAMPLE_H

#include "base/buffer.h"
#include "queue/queue.h"

#include <stdatomic.h>

struct http_shared;

enum monitor_rate {
    MONITOR_RATE_PUSHED = 0,
    MONITOR_RATE_DELIVERED,
    MONITOR_RATE_ACKED,
    MONITOR_RATE_NACKED,
    MONITOR_RATE_DIED,
    MONITOR_RATE_CANCELLED,
    MONITOR_RATE_EXPIRED,
    MONITOR_RATES
};

/* Figures that can be summed up, of one topic or of many. */
struct monitor_figures {
    struct queue_counts counts;
    double rates[MONITOR_RATES]; /* per second, since the previous sample */
    int64_t oldest_ready_due_ms; /* wall clock; 0: no job is ready */
};

struct monitor_sample_topic {
    struct slice name; /* points into the sample's names */
    struct monitor_figures figures;
    struct topic_totals totals;
    uint64_t max_jobs; /* 0: no limit */
    int64_t
        taken_ms; /* inner clock: no worker took a job since, or the target accepted none, as far as known */
    int64_t paused_ms;       /* since when it is paused; 0: not paused */
    int64_t paused_until_ms; /* wall clock; 0: not paused, or without end */
    int64_t stopped_ms;      /* since when it has ready jobs in groups that are paused or on hold */
    bool delivers;           /* its jobs are sent to a target */
    const char *breaker; /* of its target, if jobs wait for it: "open" or "half_open"; else NULL */
};

struct monitor_sample {
    atomic_uint holders;
    uint64_t serial;  /* counts from 1 */
    int64_t wall_ms;  /* when it was made */
    int64_t inner_ms; /* when it was made */
    bool is_whole;    /* the store answered; else there are no topics */
    bool is_redis;
    bool is_healthy, is_accepting, is_moved; /* as in queue_info */
    struct monitor_sample_topic *topics;     /* sorted by name */
    size_t topic_count, topic_cap;
    struct buffer names;
    struct monitor_figures sums; /* over all topics */
};

struct monitor_sample *monitor_sample_hold(struct monitor_sample *sample);
void monitor_sample_release(struct monitor_sample *sample);
void monitor_figures_add(struct monitor_figures *sum, const struct monitor_figures *more);
/* Returns the rate of an increase per second. A topic that was deleted and recreated starts at
 * 0. */
double monitor_rate_of(uint64_t now, uint64_t before, int64_t ms);

/* Lateness of jobs handed out in the last minute. Empty name: over all topics. -1: unknown, or no
 * job was handed out. */
struct monitor_lateness {
    int64_t p50_ms, p99_ms;
    uint64_t count;
};
struct monitor_lateness monitor_sample_lateness(struct http_shared *shared, struct slice topic);

#endif
