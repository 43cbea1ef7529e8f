/*
 * delivery: push delivery of the server: the guard with the policy file, deliver on the first
 * reactor, and the calls to it from fronts on other reactors. In a build without push delivery,
 * absent/delivery.c replaces it.
 *
 * Life: delivery_open before the reactors run; delivery_start when they do; delivery_stop before
 * the waiters are drained; delivery_close after the reactors have ended, while queues and waiters
 * still exist.
 */
#ifndef TARRY_SERVER_DELIVERY_H
#define TARRY_SERVER_DELIVERY_H

#include "http/front.h"
#include "queue/door.h"
#include "server/backend.h"
#include "server/config.h"

enum { DELIVERY_ERROR_BYTES = 512 };

struct delivery {        /* zeroed: closed */
    struct guard *guard; /* NULL in a build without push delivery */
    struct deliver *deliver;
    struct reactor *reactor;
    struct http_hooks hooks;
    struct queue_callback_rule callbacks; /* for the doors of all queues */
    bool is_stopping;                     /* used on the first reactor */
};

/* Opens push delivery with the policy file of `config`; without one, nothing is delivered. `reactor`,
 * `queue` and `waiters` belong to the first reactor. `backend` is the job store. `tracer` is NULL
 * if tracing is off. Returns false with `error`, which names the problem and the remedy. */
bool delivery_open(struct delivery *delivery, const struct config *config, struct backend *backend,
                   struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   struct lateness *lateness, struct tracer *tracer,
                   char error[DELIVERY_ERROR_BYTES]);
/* Checks a policy file. Returns false with `error`, which names the problem and the remedy. */
bool delivery_check(const char *path, char error[DELIVERY_ERROR_BYTES]);
void delivery_start(struct delivery *delivery);
/* Appends the metrics of delivery. Any thread. */
void delivery_emit_metrics(struct delivery *delivery, struct metric_page *page);
/* Rows of these metrics; {0} in a build without push delivery. */
extern const struct metric_table delivery_metrics, delivery_dead_metrics;
/* Reads the policy file again and logs the result; after an error the old rules stay in force. */
void delivery_reload(struct delivery *delivery);
/* Call deliver_next_ms, deliver_clock_moved and deliver_clock_reset. */
int64_t delivery_next_ms(const struct delivery *delivery);
void delivery_clock_moved(struct delivery *delivery);
void delivery_clock_reset(struct delivery *delivery);
void delivery_stop(struct delivery *delivery, int64_t timeout_ms, void (*stopped)(void *ctx),
                   void *ctx);
void delivery_close(struct delivery *delivery);

#endif
