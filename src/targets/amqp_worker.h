/*
 * amqp_worker: the thread that keeps the connection of one target, and what goes between it and the
 * reactor: a queue of messages there, a list of settled ones back, both under a lock.
 *
 * It connects when there is something to send. A connection that is lost fails what was published
 * and not confirmed; what was still in the queue stays there for the next one. Where none can be
 * made the queue is settled as unsent, and the next try waits: 100 ms, doubling up to 5 s. One with
 * nothing to send for a minute is closed.
 */
#ifndef TARRY_TARGETS_AMQP_WORKER_H
#define TARRY_TARGETS_AMQP_WORKER_H

#include "targets/amqp_channel.h"

struct target_amqp_told {       /* on the worker's thread */
    void (*settled)(void *ctx); /* the list of settled ones was empty and is not any more */
    void (*ended)(void *ctx);   /* the thread does nothing more: join it */
};

struct target_amqp_worker {
    struct target_amqp_link link;
    struct target_amqp_channel channels[TARGET_AMQP_CHANNELS];
    struct list own_settled; /* gathered by the thread during a turn */
    struct list taken;       /* out of the queue, not published yet */
    bool is_blocked;         /* connection.blocked: RabbitMQ wants no messages now */
    int64_t pause_ms, next_open_ms;
    int64_t used_ms; /* when there was last something to send */

    struct target_amqp_told told;
    void *ctx;

    pthread_t thread;
    pthread_mutex_t mutex; /* over what follows */
    struct list queue, settled;
    bool is_stopping, is_idle;        /* is_idle: it sleeps, and has to be woken */
    char trouble[TARGET_ERROR_BYTES]; /* why nothing is sent now; empty: nothing is wrong */
};

/* 0 or negative errno. */
int target_amqp_worker_init(struct target_amqp_worker *worker, struct guard *guard,
                            const struct target_amqp_url *url, const char *version,
                            const struct target_amqp_told *told, void *ctx);
/* After the thread has ended or where none was started. */
void target_amqp_worker_fini(struct target_amqp_worker *worker);

/* 0 or negative errno. */
int target_amqp_worker_start(struct target_amqp_worker *worker);
/* What is under way is given up and settled. `told.ended` follows. `at_once`: without
 * taking leave of the broker, for a thread that may be in the midst of something. */
void target_amqp_worker_stop(struct target_amqp_worker *worker, bool at_once);

/* The reactor's thread. The messages of a list, which is empty afterwards. */
void target_amqp_worker_send(struct target_amqp_worker *worker, struct list *messages);
/* Those that are settled, added to `out`. */
void target_amqp_worker_take_settled(struct target_amqp_worker *worker, struct list *out);
/* Its time is over. True: it never left, and is the caller's again. False: it may have been sent;
 * it comes among the settled ones later. `trouble` (TARGET_ERROR_BYTES): what was wrong, or empty.
 */
bool target_amqp_worker_give_up(struct target_amqp_worker *worker,
                                struct target_amqp_message *message, char *trouble);

#endif
