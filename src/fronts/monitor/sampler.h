/*
 * sampler: samples of the server's state, at most one per second: its topics with their rates, and
 * a history of the last ten minutes.
 *
 * One for all fronts of a server, on one reactor. A sample is made
 *   - once a second, while a client listens on any front (monitor_sampler_listen);
 *   - when a front requests a fresh one (monitor_sampler_want);
 *   - every 5 s while there is activity, for the history: at the end of a loop iteration that
 *     happens anyway, and once more after a sample with changes. So an idle server is not woken up.
 *     If the store is Redis, only while a client listens, since sampling sends requests to Redis.
 * Topics are read page by page, so that no loop iteration takes long. A slow sample is followed by
 * a pause that keeps the sampler below a tenth of the time.
 *
 * A finished sample is read-only, shared by all fronts and reference-counted. It is sent to each
 * front that needs one as a letter.
 *
 * Memory: two samples of about 350 bytes per topic.
 */
#ifndef TARRY_MONITOR_SAMPLER_H
#define TARRY_MONITOR_SAMPLER_H

#include "http/front.h"

#include <stdatomic.h>

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
    uint64_t max_jobs;       /* 0: no limit */
    int64_t taken_ms;        /* inner clock: no job was handed out since, as far as known */
    int64_t paused_ms;       /* since when it is paused; 0: not paused */
    int64_t paused_until_ms; /* wall clock; 0: not paused, or without end */
    bool delivers;           /* its jobs are sent to a target */
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

/* A point of the history. */
struct monitor_history_point {
    int64_t wall_ms;
    struct monitor_figures sums;
    int64_t lateness_p99_ms; /* -1: no job was handed out */
};
enum { MONITOR_HISTORY_POINTS = 120, MONITOR_HISTORY_MS = 5000 };

struct monitor_sampler;

/* The mailbox of a front for samples: the newest sample that it has not seen, and the letter that
 * announces it. Zeroed except for `run` of the letter. */
struct monitor_sample_box {
    struct letter letter;
    atomic_bool is_open; /* whether the front receives samples */
    _Atomic(struct monitor_sample *) next;
};

/* Creates the sampler on this reactor and queue. Returns NULL if out of memory. */
struct monitor_sampler *monitor_sampler_new(struct http_shared *shared, struct reactor *reactor,
                                            struct queue *queue);
/* Frees the sampler after the fronts, before its reactor; NULL is allowed. */
void monitor_sampler_free(struct monitor_sampler *sampler);

/* ---- called by a front, on its thread ---- */

/* Adds a listener; monitor_sampler_leave removes it. */
void monitor_sampler_listen(struct monitor_sampler *sampler);
void monitor_sampler_leave(struct monitor_sampler *sampler);

/* Requests a fresh sample. Returns the first serial that is fresh enough. */
uint64_t monitor_sampler_want(struct monitor_sampler *sampler);

/* Checks, after activity, whether a sample is due for the history. */
void monitor_sampler_look(struct monitor_sampler *sampler, const struct http_front *front);

struct monitor_sample *monitor_sample_hold(struct monitor_sample *sample);
void monitor_sample_release(struct monitor_sample *sample);
/* Returns the topic of that name, or NULL. */
const struct monitor_sample_topic *monitor_sample_find(const struct monitor_sample *sample,
                                                       struct slice name);
void monitor_figures_add(struct monitor_figures *sum, const struct monitor_figures *more);

/* Lateness of jobs handed out in the last minute. Empty name: over all topics. -1: unknown, or no
 * job was handed out. */
struct monitor_lateness {
    int64_t p50_ms, p99_ms;
    uint64_t count;
};
struct monitor_lateness monitor_sample_lateness(struct http_shared *shared, struct slice topic);

/* Copies the history, oldest first. Returns the number of points. */
size_t monitor_sampler_history(struct monitor_sampler *sampler,
                               struct monitor_history_point out[MONITOR_HISTORY_POINTS]);

#endif
