/*
 * in: turns messages from RabbitMQ into jobs, which push delivery publishes to RabbitMQ when they
 * are due. Implements `tarry serve --amqp-in`.
 *
 * Replaces the delayed-message plugin, and queues with TTL and a dead-letter exchange. A message is
 * acknowledged when its push has been answered, that is when it is as durable as the queue
 * promises. The URL is documented in source.h, the headers of a message in job.h.
 *
 * One per server, on one reactor; the connection has a thread of its own. Requires an enabled guard
 * and push delivery.
 */
#ifndef TARRY_AMQP_IN_H
#define TARRY_AMQP_IN_H

#include "base/metric.h"
#include "guard/guard.h"
#include "intake/source.h"
#include "net/reactor.h"
#include "queue/queue.h"

struct amqp_in;

struct amqp_in_options {
    struct reactor *reactor;
    struct queue *queue; /* the queue of that reactor */
    struct guard *guard;
    const struct queue_caller *caller; /* the caller that messages are pushed for */
    const char *version, *url;         /* must outlive it, as the other pointers */
};

/* Creates the intake; call it before the reactor runs. On NULL, `error` (AMQP_IN_ERROR_BYTES)
 * describes the problem. */
struct amqp_in *amqp_in_new(const struct amqp_in_options *options, char *error);
/* Gives the topic its settings if it has none, then connects. Call it on the reactor's thread or
 * before the reactor runs. */
void amqp_in_start(struct amqp_in *in);
/* Stops reading and acknowledges stored messages. Calls `stopped` once within four seconds, never
 * inside the call. Call it before the queue is stopped. */
void amqp_in_stop(struct amqp_in *in, void (*stopped)(void *ctx), void *ctx);
/* Frees the intake after the reactor has stopped, or if it was not started. NULL is allowed. */
void amqp_in_free(struct amqp_in *in);

/* Writes the metrics in Prometheus format, or nothing if `in` is NULL. Any thread. */
void amqp_in_emit_metrics(struct amqp_in *in, struct metric_page *page);
extern const struct metric amqp_in_metrics[];

#endif
