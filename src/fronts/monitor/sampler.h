/*
 * sampler: samples of the server's state, at most one per second: its topics with their rates, and
 * a history of the last ten minutes.
 *
 * One for all fronts of a server, on one reactor. A sample is made
 *   - once a second, while a client listens on any front (http_sampler_listen);
 *   - when a front requests a fresh one (http_sampler_want);
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

enum http_rate {
    HTTP_RATE_PUSHED = 0,
    HTTP_RATE_DELIVERED,
    HTTP_RATE_ACKED,
    HTTP_RATE_NACKED,
    HTTP_RATE_DIED,
    HTTP_RATE_CANCELLED,
    HTTP_RATE_EXPIRED,
    HTTP_RATES
};

/* Figures that can be summed up, of one topic or of many. */
struct http_figures {
    struct queue_counts counts;
    double rates[HTTP_RATES];    /* per second, since the previous sample */
    int64_t oldest_ready_due_ms; /* wall clock; 0: no job is ready */
};

struct http_sample_topic {
    struct slice name; /* points into the sample's names */
    struct http_figures figures;
    struct topic_totals totals;
    uint64_t max_jobs;       /* 0: no limit */
    int64_t taken_ms;        /* inner clock: no job was handed out since, as far as known */
    int64_t paused_ms;       /* since when it is paused; 0: not paused */
    int64_t paused_until_ms; /* wall clock; 0: not paused, or without end */
    bool delivers;           /* its jobs are sent to a target */
};

struct http_sample {
    atomic_uint holders;
    uint64_t serial;  /* counts from 1 */
    int64_t wall_ms;  /* when it was made */
    int64_t inner_ms; /* when it was made */
    bool is_whole;    /* the store answered; else there are no topics */
    bool is_redis;
    bool is_healthy, is_accepting, is_moved; /* as in queue_info */
    struct http_sample_topic *topics;        /* sorted by name */
    size_t topic_count, topic_cap;
    struct buffer names;
    struct http_figures sums; /* over all topics */
};

/* A point of the history. */
struct http_history_point {
    int64_t wall_ms;
    struct http_figures sums;
    int64_t lateness_p99_ms; /* -1: no job was handed out */
};
enum { HTTP_HISTORY_POINTS = 120, HTTP_HISTORY_MS = 5000 };

struct http_sampler;

/* The mailbox of a front for samples: the newest sample that it has not seen, and the letter that
 * announces it. Zeroed except for `run` of the letter. */
struct http_sample_box {
    struct letter letter;
    atomic_bool is_open; /* whether the front wants samples */
    _Atomic(struct http_sample *) next;
};

/* Creates the sampler on this reactor and queue. Returns NULL if out of memory. */
struct http_sampler *http_sampler_new(struct http_shared *shared, struct reactor *reactor,
                                      struct queue *queue);
/* Frees the sampler after the fronts, before its reactor; NULL is allowed. */
void http_sampler_free(struct http_sampler *sampler);

/* ---- called by a front, on its thread ---- */

/* Adds a listener; http_sampler_leave removes it. */
void http_sampler_listen(struct http_sampler *sampler);
void http_sampler_leave(struct http_sampler *sampler);

/* Requests a fresh sample. Returns the first serial that is fresh enough. */
uint64_t http_sampler_want(struct http_sampler *sampler);

/* Checks, after activity, whether a sample is due for the history. */
void http_sampler_look(struct http_sampler *sampler, const struct http_front *front);

struct http_sample *http_sample_hold(struct http_sample *sample);
void http_sample_release(struct http_sample *sample);
/* Returns the topic of that name, or NULL. */
const struct http_sample_topic *http_sample_find(const struct http_sample *sample,
                                                 struct slice name);
void http_figures_add(struct http_figures *sum, const struct http_figures *more);

/* Lateness of jobs handed out in the last minute. Empty name: over all topics. -1: unknown, or no
 * job was handed out. */
struct http_lateness {
    int64_t p50_ms, p99_ms;
    uint64_t count;
};
struct http_lateness http_sample_lateness(struct http_shared *shared, struct slice topic);

/* Copies the history, oldest first. Returns the number of points. */
size_t http_sampler_history(struct http_sampler *sampler,
                            struct http_history_point out[HTTP_HISTORY_POINTS]);

#endif
