/*
 * delivery: push delivery as the server has it: the policy file's guard, deliver on the first
 * reactor, and the way there from fronts on other reactors. In a build without push delivery,
 * absent/delivery.c stands in its place.
 *
 * Life: delivery_open before the reactors run; delivery_start when they do; delivery_stop before
 * the waiters are drained; delivery_close after the reactors have ended, while queues and waiters
 * stand.
 */
#ifndef TARRY_SERVER_DELIVERY_H
#define TARRY_SERVER_DELIVERY_H

#include "http/front.h"
#include "server/backend.h"

enum { DELIVERY_ERROR_BYTES = 512 };

struct delivery {        /* zeroed: closed */
    struct guard *guard; /* NULL: there is no push delivery in this build */
    struct deliver *deliver;
    struct reactor *reactor;
    struct http_hooks hooks;
    bool is_stopping; /* the first reactor's */
};

/* `path`: the policy file; empty: nothing is delivered. `reactor`, `queue`, `waiters`: the first
 * reactor's. `backend` is what keeps the jobs, `tracer` NULL: nothing is traced. False: `error` says what and what to do. */
bool delivery_open(struct delivery *delivery, const char *path, struct backend *backend,
                   struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   struct lateness *lateness, struct tracer *tracer,
                   char error[DELIVERY_ERROR_BYTES]);
/* Would this policy file do? False: `error` says what and what to do. */
bool delivery_check(const char *path, char error[DELIVERY_ERROR_BYTES]);
void delivery_start(struct delivery *delivery);
/* Any thread. */
void delivery_emit_metrics(struct delivery *delivery, struct metric_page *page);
/* The rows of these; {0} where nothing is delivered by this build. */
extern const struct metric_table delivery_metrics, delivery_dead_metrics;
/* The policy file again; on an error the old rules stay. Logs what became of it. */
void delivery_reload(struct delivery *delivery);
/* As deliver_next_ms, deliver_clock_moved and deliver_clock_reset. */
int64_t delivery_next_ms(const struct delivery *delivery);
void delivery_clock_moved(struct delivery *delivery);
void delivery_clock_reset(struct delivery *delivery);
void delivery_stop(struct delivery *delivery, int64_t patience_ms, void (*stopped)(void *ctx),
                   void *ctx);
void delivery_close(struct delivery *delivery);

#endif
