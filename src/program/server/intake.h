/*
 * intake: where jobs come from beside clients: messages of a broker. One kind, AMQP, by --amqp-in.
 *
 * A table of functions, as struct backend_ops. Life: open before the first reactor runs; start when
 * it does; stop before the queue is stopped; free after the reactor has ended. All but emit_metrics
 * on that reactor's thread.
 */
#ifndef TARRY_SERVER_INTAKE_H
#define TARRY_SERVER_INTAKE_H

#include "base/metric.h"
#include "net/reactor.h"
#include "queue/queue.h"

enum { INTAKE_ERROR_BYTES = 512 };

struct guard;

struct intake_options {
    struct reactor *reactor;
    struct queue *queue;               /* of that reactor */
    struct guard *guard;               /* NULL: nothing is delivered */
    const struct queue_caller *caller; /* on whose behalf jobs are pushed */
    const char *version, *url;
};

struct intake_ops {
    /* NULL: `error` (INTAKE_ERROR_BYTES) says why. */
    void *(*open)(const struct intake_options *options, char *error);
    void (*start)(void *self);
    /* Takes no more; `stopped` once, never inside the call. */
    void (*stop)(void *self, void (*stopped)(void *ctx), void *ctx);
    void (*free)(void *self); /* NULL is fine */
    /* Lines of a Prometheus page; any thread; NULL: none. */
    void (*emit_metrics)(void *self, struct metric_page *page);
    const struct metric *metrics; /* the rows of these; NULL: none */
};

extern const struct intake_ops intake_amqp;

#endif
