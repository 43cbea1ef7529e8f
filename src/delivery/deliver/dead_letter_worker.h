/*
 * dead_letter_worker: applies the topics' rules for dead jobs (dead_letter.h): sends alerts,
 * forwards dead jobs, drops the oldest.
 *
 * Of all servers of a queue, only one worker processes a topic at a time, because the work itself
 * is a job. When jobs of a topic die, a control job named after the topic is pushed to the topic
 * `tarry.dead`. The worker that takes it makes a pass over the topic's dead jobs. So the work
 * survives a crash, and an interrupted pass is repeated. Every step of a pass is idempotent:
 *   - A forwarded job carries its origin (meta dead-delivery). It is dropped from its topic
 *     only after the copy is stored, and only if it is still the same dead job.
 *   - The time of an alert is stored in a note, a job of `tarry.dead` that is due in years.
 * Alerts and jobs forwarded to a URL are jobs of the topic `tarry.callbacks`, delivered by an
 * ordinary dispatcher.
 *
 * Used on the reactor's thread; metrics read the counters on any thread.
 */
#ifndef TARRY_DELIVER_DEAD_LETTER_WORKER_H
#define TARRY_DELIVER_DEAD_LETTER_WORKER_H

#include "deliver/dead_letter.h"
#include "guard/guard.h"
#include "net/reactor.h"
#include "queue/waiter.h"

#define DEAD_LETTER_TOPIC "tarry.dead"
#define DEAD_LETTER_CALLBACKS_TOPIC "tarry.callbacks"

struct dead_letter_worker;

struct dead_letter_worker_options {
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct guard *guard;
    uint32_t topics_max; /* with their own metric labels */
};

/* Creates a worker, before the reactor runs. Returns NULL when out of memory. */
struct dead_letter_worker *dead_letter_worker_new(const struct dead_letter_worker_options *options);
/* Sets the rules of a topic; NULL if it has no rules or was deleted. Call it for each topic at the
 * start and after each change. The rules are not retained. */
void dead_letter_worker_follow(struct dead_letter_worker *worker, struct slice topic,
                               const struct dead_letter *rules);
/* Notifies the worker that jobs of the topic died; an empty name means any topic. */
void dead_letter_worker_on_dead(struct dead_letter_worker *worker, struct slice topic);
/* Gives the control job back after the current call. `stopped` is called once, never inside the
 * call. */
void dead_letter_worker_stop(struct dead_letter_worker *worker, void (*stopped)(void *ctx),
                             void *ctx);
/* Frees the worker, after the reactor has stopped. */
void dead_letter_worker_free(struct dead_letter_worker *worker);

#endif
