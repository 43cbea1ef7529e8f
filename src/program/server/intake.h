/*
 * intake: a source of jobs other than clients: the messages of a broker. There is one kind, AMQP
 * (--amqp-in).
 *
 * A table of functions like struct backend_ops. Life: open before the first reactor runs; start
 * when it does; stop before the queue is stopped; free after the reactor has ended. All functions
 * except emit_metrics run on that reactor's thread.
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
    struct queue *queue;               /* queue of that reactor */
    struct guard *guard;               /* NULL if nothing is delivered */
    const struct queue_caller *caller; /* caller for which jobs are pushed */
    const char *version, *url;
};

struct intake_ops {
    /* Checks the URL; a server that `delivers` has a policy file. Returns false with `error`
     * (INTAKE_ERROR_BYTES). */
    bool (*check)(const char *url, bool delivers, char *error);
    /* Returns NULL with `error` (INTAKE_ERROR_BYTES) on failure. */
    void *(*open)(const struct intake_options *options, char *error);
    void (*start)(void *self);
    /* Accepts no more messages; calls `stopped` once, never inside the call. */
    void (*stop)(void *self, void (*stopped)(void *ctx), void *ctx);
    void (*free)(void *self); /* accepts NULL */
    /* Appends lines of a Prometheus page; any thread. NULL if there are no metrics. */
    void (*emit_metrics)(void *self, struct metric_page *page);
    const struct metric *metrics; /* rows of these metrics; may be NULL */
};

extern const struct intake_ops intake_amqp;

#endif
