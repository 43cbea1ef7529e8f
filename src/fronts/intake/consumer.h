/*
 * consumer: the thread that takes messages from a queue of RabbitMQ, hands them on in batches, and
 * acknowledges each once it is kept.
 *
 * A message that can never be taken is rejected without requeue, so the queue's own dead-letter
 * exchange gets it. One that cannot be taken now stays here, unacknowledged, and is offered again
 * every second; what the broker sends is bounded by the prefetch, so consumption rests meanwhile.
 * Connects for ever: 100 ms after a loss, doubling up to 5 s until a connection has proven good.
 *
 * librabbitmq reads nothing behind a message that it cannot decode. Such a message is rejected like any
 * other that can never be taken, and the connection is opened again at once.
 */
#ifndef TARRY_AMQP_CONSUMER_H
#define TARRY_AMQP_CONSUMER_H

#include "intake/job.h"
#include "targets/amqp_connection.h"
#include "targets/target.h"

enum { AMQP_IN_BATCH = 256 };

/* Goes to the queue's thread and comes back with each job's status. Freed by whoever has it. */
struct amqp_in_batch {
    struct list list;
    uint64_t generation; /* of the connection its delivery tags belong to */
    size_t count;
    struct amqp_in_job *jobs[AMQP_IN_BATCH];
};

struct amqp_in_counts { /* any thread reads */
    _Atomic uint64_t received, taken, again, rejected[AMQP_IN_BAD_JOB + 1], connections;
    atomic_bool is_connected, is_refused; /* is_refused: the queue takes nothing now */
};

struct amqp_in_consumer_events {                           /* on the consumer's thread */
    void (*batch)(void *ctx, struct amqp_in_batch *batch); /* takes it over */
    void (*ended)(void *ctx);                              /* nothing follows: join the thread */
};

struct amqp_in_consumer;

/* 0 or negative errno. `guard`, `source`, `version`, `counts` outlive it. */
int amqp_in_consumer_new(struct guard *guard, const struct amqp_in_source *source,
                         const char *version, struct amqp_in_counts *counts,
                         const struct amqp_in_consumer_events *events, void *ctx,
                         struct amqp_in_consumer **out);
/* False: no thread could be started. */
bool amqp_in_consumer_start(struct amqp_in_consumer *consumer);
/* Waits for the thread's end, which it hastens where it was not asked to stop; batches out there are
 * not counted. NULL is fine. */
void amqp_in_consumer_free(struct amqp_in_consumer *consumer);

/* ---- any thread ---- */

/* A batch comes back. */
void amqp_in_consumer_settle(struct amqp_in_consumer *consumer, struct amqp_in_batch *batch);
/* Takes no more, acknowledges what comes back within two seconds, ends. `at_once`: also where it is
 * in the midst of something. */
void amqp_in_consumer_stop(struct amqp_in_consumer *consumer, bool at_once);

#endif
