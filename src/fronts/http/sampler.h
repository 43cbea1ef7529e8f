/*
 * sampler: what a server sees of itself, once a second at most: its topics with how fast they change,
 * and a history of the last ten minutes.
 *
 * One for all fronts of a server, at home on one reactor. A sample is made
 *   - once a second, while anybody listens on any front (http_sampler_listen);
 *   - when a front wants a fresh one (http_sampler_want);
 *   - every 5 s while something happens, for the history: at the end of a turn that comes anyway, and
 *     after one that found something new once more. So an idle server makes no wake-ups by it. Where the
 *     store is Redis only while somebody listens, since Redis would have to be asked.
 * Topics are asked for page by page, so that no turn takes long, and a sample that took long is followed by
 * as long a pause as keeps the sampler below a tenth of the time.
 *
 * A sample is read-only once it is there, shared by all fronts, and held by those who need it; it
 * comes to each front that wants one by a letter.
 *
 * Memory: two samples, of about 350 bytes a topic each.
 */
#ifndef TARRY_HTTP_SAMPLER_H
#define TARRY_HTTP_SAMPLER_H

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

/* Figures that can be added up: of a topic, or of many. */
struct http_figures {
    struct queue_counts counts;
    double rates[HTTP_RATES];    /* a second, since the sample before */
    int64_t oldest_ready_due_ms; /* wall clock; 0: none is ready */
};

struct http_sample_topic {
    struct slice name; /* in the sample's names */
    struct http_figures figures;
    struct topic_totals totals;
    uint64_t max_jobs; /* 0: no limit */
    int64_t taken_ms;  /* inner clock: nothing was handed out since then, as far as is known */
    int64_t paused_ms; /* paused since then; 0: not paused */
    int64_t paused_until_ms; /* wall clock; 0: not paused, or without end */
    bool delivers;           /* its jobs are sent to a target */
};

struct http_sample {
    atomic_uint holders;
    uint64_t serial;  /* from 1 on */
    int64_t wall_ms;  /* when it was made */
    int64_t inner_ms; /* the same */
    bool is_whole;    /* the store could be asked; else there are no topics */
    bool is_redis;
    bool is_healthy, is_accepting, is_moved; /* as queue_info says */
    struct http_sample_topic *topics;        /* by name */
    size_t topic_count, topic_cap;
    struct buffer names;
    struct http_figures sums; /* of all topics */
};

/* A point of the history. */
struct http_history_point {
    int64_t wall_ms;
    struct http_figures sums;
    int64_t lateness_p99_ms; /* -1: nothing was handed out */
};
enum { HTTP_HISTORY_POINTS = 120, HTTP_HISTORY_MS = 5000 };

struct http_sampler;

/* Where a front gets samples: the newest one that it has not seen, and the letter that tells of it.
 * Zeroed but for `run` of the letter. */
struct http_sample_box {
    struct letter letter;
    atomic_bool is_open; /* it wants samples */
    _Atomic(struct http_sample *) next;
};

/* `reactor` and `queue`: its home. NULL: out of memory. */
struct http_sampler *http_sampler_new(struct http_shared *shared, struct reactor *reactor,
                                      struct queue *queue);
/* After the fronts, while its reactor stands; NULL will do. */
void http_sampler_free(struct http_sampler *sampler);

/* ---- of a front, on its thread ---- */

/* Somebody listens from now on; or one less does. */
void http_sampler_listen(struct http_sampler *sampler);
void http_sampler_leave(struct http_sampler *sampler);

/* A fresh sample is wanted. Returns the serial from which on it is fresh enough. */
uint64_t http_sampler_want(struct http_sampler *sampler);

/* Something happened: is it time for the history? */
void http_sampler_look(struct http_sampler *sampler, const struct http_front *front);

struct http_sample *http_sample_hold(struct http_sample *sample);
void http_sample_release(struct http_sample *sample);
/* NULL: there is none of this name. */
const struct http_sample_topic *http_sample_find(const struct http_sample *sample,
                                                 struct slice name);
void http_figures_add(struct http_figures *sum, const struct http_figures *more);

/* How late jobs were handed out in the last minute. An empty name: of all topics together. -1: not
 * known, or nothing was handed out. */
struct http_lateness {
    int64_t p50_ms, p99_ms;
    uint64_t count;
};
struct http_lateness http_sample_lateness(struct http_shared *shared, struct slice topic);

/* The history, oldest first. Returns how many points. */
size_t http_sampler_history(struct http_sampler *sampler,
                            struct http_history_point out[HTTP_HISTORY_POINTS]);

#endif
