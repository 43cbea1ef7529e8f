/*
 * sampler: samples of the server's state, at most one per second: its topics with their rates, and
 * a history of the last ten minutes. It also feeds the day of history (day.h).
 *
 * One for all fronts of a server, on one reactor. A sample is made
 *   - once a second, while a client listens on any front (monitor_sampler_listen);
 *   - when a front requests a fresh one (monitor_sampler_want);
 *   - every 5 s while there is activity, for the history: at the end of a loop iteration that
 *     happens anyway, and once more after a sample with changes. So an idle server is not woken up.
 *     If the store is Redis, every minute, since sampling sends requests to Redis.
 * Topics are read page by page, so that no loop iteration takes long. A slow sample is followed by
 * a pause that keeps the sampler below a tenth of the time; for the history the pause is at most a
 * minute.
 *
 * A finished sample (sample.h) is sent to each front that needs one as a letter.
 *
 * Memory: three samples of about 350 bytes per topic.
 */
#ifndef TARRY_MONITOR_SAMPLER_H
#define TARRY_MONITOR_SAMPLER_H

#include "http/front.h"
#include "monitor/sample.h"

#include <stdatomic.h>

/* A point of the history. */
struct monitor_history_point {
    int64_t wall_ms;
    struct monitor_figures sums;
    int64_t lateness_p99_ms; /* -1: no job was handed out */
};
enum { MONITOR_HISTORY_POINTS = 120, MONITOR_HISTORY_MS = 5000 };

struct monitor_sampler;
struct monitor_day;

/* The mailbox of a front for samples: the newest sample that it has not seen, and the letter that
 * announces it. Zeroed except for `run` of the letter. */
struct monitor_sample_box {
    struct letter letter;
    atomic_bool is_open; /* whether the front receives samples */
    _Atomic(struct monitor_sample *) next;
};

/* Creates the sampler on this reactor and queue; `day` must outlive it. Returns NULL if out of
 * memory. */
struct monitor_sampler *monitor_sampler_new(struct http_shared *shared, struct reactor *reactor,
                                            struct queue *queue, struct monitor_day *day);
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

/* Copies the history, oldest first. Returns the number of points. */
size_t monitor_sampler_history(struct monitor_sampler *sampler,
                               struct monitor_history_point out[MONITOR_HISTORY_POINTS]);

#endif
