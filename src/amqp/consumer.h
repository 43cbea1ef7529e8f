/*
 * consumer: the thread that takes messages from a queue of RabbitMQ, hands them on in batches, and
 * acknowledges each once it is kept.
 *
 * A message that can never be taken is rejected without requeue, so the queue's own dead-letter
 * exchange gets it. One that cannot be taken now stays here, unacknowledged, and is offered again
 * every second; what the broker sends is bounded by the prefetch, so consumption rests meanwhile.
 * Connects for ever: 100 ms after a loss, doubling up to 5 s.
 */
#ifndef TARRY_AMQP_CONSUMER_H
#define TARRY_AMQP_CONSUMER_H

#include "amqp/job.h"
#include "targets/amqp_link.h"
#include "targets/target.h"

enum { AMQP_IN_BATCH = 256 };

/* Goes to the queue's thread and comes back with each job's status. Freed by whoever has it. */
struct amqp_in_batch {
    struct list list;
    uint64_t generation; /* of the connection its delivery tags belong to */
    size_t count;
    struct amqp_in_job *jobs[AMQP_IN_BATCH];
};
void amqp_in_batch_free(struct amqp_in_batch *batch);

struct amqp_in_counts { /* any thread reads */
    _Atomic uint64_t received, taken, again, rejected[AMQP_IN_BAD_JOB + 1], connections;
    atomic_bool is_connected, is_refused; /* is_refused: the queue takes nothing now */
};

struct amqp_in_consumer_told {                             /* on the consumer's thread */
    void (*batch)(void *ctx, struct amqp_in_batch *batch); /* takes it over */
    void (*ended)(void *ctx);                              /* nothing follows: join the thread */
};

struct amqp_in_consumer;

/* 0 or negative errno. `guard`, `source`, `version` outlive it. */
int amqp_in_consumer_new(struct guard *guard, const struct amqp_in_source *source,
                         const char *version, const struct amqp_in_consumer_told *told, void *ctx,
                         struct amqp_in_consumer **out);
int amqp_in_consumer_start(struct amqp_in_consumer *consumer);
/* After the thread has ended, or where none was started; batches out there are not counted. */
void amqp_in_consumer_free(struct amqp_in_consumer *consumer);
/* Joins the thread, which has ended. */
void amqp_in_consumer_join(struct amqp_in_consumer *consumer);

/* ---- any thread ---- */

/* A batch comes back. */
void amqp_in_consumer_settle(struct amqp_in_consumer *consumer, struct amqp_in_batch *batch);
/* Takes no more, acknowledges what comes back within two seconds, ends. `at_once`: also where it is
 * in the midst of something. */
void amqp_in_consumer_stop(struct amqp_in_consumer *consumer, bool at_once);
const struct amqp_in_counts *amqp_in_consumer_counts(const struct amqp_in_consumer *consumer);

#endif
