/*
 * intake: a source of jobs other than clients: the messages of a broker, which push delivery
 * publishes there again when they are due. The kinds are RabbitMQ (--amqp-in) and Kafka
 * (--kafka-in).
 *
 * A message is acknowledged when its push has been answered, that is when it is as durable as the
 * queue promises. One per kind and server, on one reactor; its connection has a thread of its own.
 *
 * Life: new before the first reactor runs; start when it does; stop before the queue is stopped;
 * free after the reactor has ended. All functions except intake_emit_metrics run on that reactor's
 * thread.
 */
#ifndef TARRY_INTAKE_H
#define TARRY_INTAKE_H

#include "base/metric.h"
#include "net/reactor.h"
#include "queue/queue.h"

enum { INTAKE_ERROR_BYTES = 512, INTAKES = 2 /* kinds */ };

struct guard;
struct intake;
struct intake_kind; /* kind.h */

/* A kind that this build lacks rejects its URLs. */
extern const struct intake_kind intake_amqp, intake_kafka;

struct intake_options {
    struct reactor *reactor;
    struct queue *queue;               /* queue of that reactor */
    struct guard *guard;               /* the guard of push delivery, which must be enabled */
    const struct queue_caller *caller; /* caller for which jobs are pushed */
    const char *version, *url;         /* must outlive it, as the other pointers */
};

/* Checks the URL; a server that `delivers` has a policy file. Returns false with `error`
 * (INTAKE_ERROR_BYTES). */
bool intake_check(const struct intake_kind *kind, const char *url, bool delivers, char *error);

/* Returns NULL with `error` (INTAKE_ERROR_BYTES) on failure. */
struct intake *intake_new(const struct intake_kind *kind, const struct intake_options *options,
                          char *error);
/* Gives the topic its settings if they are missing, then connects. Call it on the reactor's thread or
 * before the reactor runs. */
void intake_start(struct intake *intake);
/* Stops reading and acknowledges stored messages. Calls `stopped` once within four seconds, never
 * inside the call. */
void intake_stop(struct intake *intake, void (*stopped)(void *ctx), void *ctx);
/* Frees the intake after the reactor has stopped, or if it was not started. NULL is allowed. */
void intake_free(struct intake *intake);

/* Writes the metrics in Prometheus format, or nothing if `intake` is NULL. Any thread. */
void intake_emit_metrics(struct intake *intake, struct metric_page *page);
/* Returns the rows of the kind's metrics, or NULL if this build lacks the kind. */
const struct metric *intake_metrics(const struct intake_kind *kind);

#endif
