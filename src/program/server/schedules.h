/*
 * schedules: recurring jobs of the server: the calls under /v1/schedules, and the worker on the
 * first reactor. In a build without schedules, absent/schedules.c replaces it.
 *
 * Life: schedules_open_calls before the first front is created; schedules_open before the reactors
 * run; schedules_start when they do; schedules_stop before the waiters are drained; schedules_close
 * after the reactors have ended.
 */
#ifndef TARRY_SERVER_SCHEDULES_H
#define TARRY_SERVER_SCHEDULES_H

#include "feed/feed.h"
#include "http/front.h"

struct schedules { /* zeroed: closed */
    struct cadence_worker *worker;
};

void schedules_open_calls(struct http_shared *shared, const char *zone_directory);
/* Opens the worker. Returns false if out of memory. `hooks` and `zone_directory` must outlive it. */
bool schedules_open(struct schedules *schedules, const char *zone_directory,
                    const struct http_hooks *hooks, struct reactor *reactor, struct queue *queue,
                    struct waiters *waiters, struct feed_desk *desk);
void schedules_start(struct schedules *schedules);
/* Ends the work in progress; `stopped` is called once, never inside the call. */
void schedules_stop(struct schedules *schedules, void (*stopped)(void *ctx), void *ctx);
void schedules_close(struct schedules *schedules);

void schedules_emit_metrics(struct schedules *schedules, struct metric_page *page);
extern const struct metric_table schedules_metrics; /* {0} in a build without schedules */
/* Whether this build has schedules. */
extern const bool schedules_are_built;

#endif
