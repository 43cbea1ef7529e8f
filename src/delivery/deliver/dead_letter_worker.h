/*
 * dead_letter_worker: does with dead jobs what their topics want (dead_letter.h): alerts, forwards
 * them, drops the oldest.
 *
 * Over all servers of a queue one worker works on a topic at a time, because the work is itself a
 * job: when jobs of a topic die, a control job named after it is pushed to the topic `tarry.dead`;
 * whoever takes it makes a pass over the topic's dead jobs. So the work survives a crash, and a
 * pass that was cut off is made again. Every step of a pass may be repeated without harm:
 *   - a forwarded job carries what it was (meta dead-delivery), and is dropped from its topic
 *     only once the copy is kept, and only if it is still the same dead job
 *   - when an alert was sent stands in a note, a job of `tarry.dead` that is due in years
 * Alerts and jobs forwarded to a URL are jobs of the topic `tarry.callbacks`, delivered by a
 * dispatcher like any.
 *
 * One thread, the reactor's; dead_letter_worker_emit_metrics any.
 */
#ifndef TARRY_DELIVER_DEAD_LETTER_WORKER_H
#define TARRY_DELIVER_DEAD_LETTER_WORKER_H

#include "base/metric.h"
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
    uint32_t topics_max; /* that metrics tell apart */
};

/* Before the reactor runs. NULL: out of memory. */
struct dead_letter_worker *dead_letter_worker_new(const struct dead_letter_worker_options *options);
/* What the topic's settings say now; NULL: nothing, or the topic is gone. Tell it of each topic at
 * the start and at each change. The rules are only looked at here, not kept. */
void dead_letter_worker_follow(struct dead_letter_worker *worker, struct slice topic,
                               const struct dead_letter *rules);
/* Jobs of the topic died; an empty name: of any. */
void dead_letter_worker_on_dead(struct dead_letter_worker *worker, struct slice topic);
/* Gives the control job back after the call that is under way. `stopped` once, never inside the
 * call. */
void dead_letter_worker_stop(struct dead_letter_worker *worker, void (*stopped)(void *ctx),
                             void *ctx);
/* After the reactor has stopped. */
void dead_letter_worker_free(struct dead_letter_worker *worker);

void dead_letter_worker_emit_metrics(struct dead_letter_worker *worker, struct metric_page *page);

#endif
