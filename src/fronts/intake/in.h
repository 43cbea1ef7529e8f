/*
 * in: messages of RabbitMQ become jobs, which deliver publishes there again when they are due: what
 * stands behind `tarry serve --amqp-in`.
 *
 * Takes the place of the delayed-message plugin and of queues with TTL and a dead-letter exchange.
 * A message is acknowledged once its push was answered, so once it is as durable as the queue
 * promises. source.h says what the URL may hold, job.h what headers a message may have.
 *
 * One a server, on one reactor; the connection is on a thread of its own. Needs a guard that is on,
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
    struct queue *queue; /* of that reactor */
    struct guard *guard;
    const struct queue_caller *caller; /* on whose behalf messages are pushed */
    const char *version, *url;         /* all outlive it */
};

/* Before the reactor runs. NULL: `error` (AMQP_IN_ERROR_BYTES) says why. */
struct amqp_in *amqp_in_new(const struct amqp_in_options *options, char *error);
/* On the reactor's thread or before it runs: gives the topic its settings where it has none, then
 * connects. */
void amqp_in_start(struct amqp_in *in);
/* Takes no more, acknowledges what is kept. `stopped` once, never inside the call, within four
 * seconds. Before the queue is stopped. */
void amqp_in_stop(struct amqp_in *in, void (*stopped)(void *ctx), void *ctx);
/* After the reactor has stopped, or where it was not started. NULL is fine. */
void amqp_in_free(struct amqp_in *in);

/* Any thread. Lines of a Prometheus page; NULL: none. */
void amqp_in_emit_metrics(struct amqp_in *in, struct metric_page *page);
extern const struct metric amqp_in_metrics[];

#endif
