/* consumer_private: the consumer's thread, in two files: consumer.c (life, the connection) and
 * settle.c (batches out and back, acknowledgements). All of it on that thread, but what is under
 * the lock. */
#ifndef TARRY_AMQP_CONSUMER_PRIVATE_H
#define TARRY_AMQP_CONSUMER_PRIVATE_H

#include "amqp/consumer.h"

enum { AMQP_IN_CHANNEL = 1, AMQP_IN_WINDOW = 2 * AMQP_IN_PREFETCH_MAX }; /* a power of two */

enum amqp_in_mark { AMQP_IN_WAITS = 1, AMQP_IN_KEPT, AMQP_IN_REJECTED };

struct amqp_in_consumer {
    const struct amqp_in_source *source;
    struct target_amqp_link link;
    struct amqp_in_consumer_told told;
    void *ctx;
    struct amqp_in_counts counts;
    pthread_t thread;

    uint64_t generation;                 /* rises with each connection */
    uint64_t first, next;                /* delivery tags not acknowledged yet */
    unsigned char marks[AMQP_IN_WINDOW]; /* enum amqp_in_mark, by delivery tag */
    struct amqp_in_batch *open;          /* being filled; NULL: none */
    struct list again;                   /* jobs that were refused, to be offered again */
    int64_t again_at_ms;
    size_t batches_out;
    int64_t pause_ms, next_open_ms;
    bool said_lost; /* the log has it: the connection is lost */
    int64_t second; /* of the last lines about rejected messages, and how many */
    unsigned lines, unsaid;

    pthread_mutex_t mutex; /* over what follows */
    struct list settled;   /* batches that came back */
    bool is_stopping;
};

/* A message came. False: the connection is of no more use; `error` (TARGET_ERROR_BYTES). */
bool amqp_in_take_message(struct amqp_in_consumer *consumer, const amqp_envelope_t *envelope,
                          char *error);
/* Hands the open batch on. */
void amqp_in_flush(struct amqp_in_consumer *consumer);
/* What came back is acknowledged, rejected, or put aside; what waits long enough is offered again.
 * False as above. */
bool amqp_in_settle_batches(struct amqp_in_consumer *consumer, char *error);
/* The connection is gone: what it delivered will be delivered again. */
void amqp_in_forget(struct amqp_in_consumer *consumer);

#endif
