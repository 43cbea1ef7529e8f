/*
 * worker: handles the schedules that are due: takes them, pushes their fires, and pushes the
 * schedules again for their next fire.
 *
 * Each server has one. A schedule is a job (stored.h), so only one server handles it at a time. If a
 * server ends between the push of a fire and the push of the schedule, the lease ends, another
 * server decides the same fire, and its `once` makes the second push have no effect.
 *
 * Used on the reactor's thread; worker_emit_metrics on any thread.
 */
#ifndef TARRY_CADENCE_WORKER_H
#define TARRY_CADENCE_WORKER_H

#include "base/metric.h"
#include "feed/feed.h"
#include "http/front.h"
#include "net/reactor.h"

struct cadence_worker;

struct cadence_worker_options {
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    const char *zone_directory;     /* must outlive the worker */
    const struct http_hooks *hooks; /* for callbacks of jobs; may be NULL */
    struct feed_desk *desk;         /* for events of skipped fires; may be NULL */
};

/* Creates a worker, before the reactor runs. Returns NULL if out of memory. */
struct cadence_worker *cadence_worker_new(const struct cadence_worker_options *options);
/* Begins to take schedules. */
void cadence_worker_start(struct cadence_worker *worker);
/* Ends after the schedules in progress. `stopped` is called once, never inside the call. */
void cadence_worker_stop(struct cadence_worker *worker, void (*stopped)(void *ctx), void *ctx);
/* Frees the worker, after the reactor has stopped. */
void cadence_worker_free(struct cadence_worker *worker);

void cadence_worker_emit_metrics(struct cadence_worker *worker, struct metric_page *page);
extern const struct metric cadence_metrics[];

#endif
