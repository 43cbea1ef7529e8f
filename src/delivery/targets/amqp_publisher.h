/*
 * amqp_publisher: the thread that keeps the connection of one target, and what goes between it and the
 * reactor: a queue of messages there, a list of settled ones back, both under a lock.
 *
 * It connects when there is something to send. A connection that is lost fails what was published
 * and not confirmed; what was still in the queue stays there for the next one. Where none can be
 * made the queue is settled as unsent, and the next try waits: 100 ms, doubling up to 5 s. One with
 * nothing to send for a minute is closed.
 */
#ifndef TARRY_TARGETS_AMQP_PUBLISHER_H
#define TARRY_TARGETS_AMQP_PUBLISHER_H

#include "targets/amqp_connection.h"
#include "targets/amqp_message.h"

struct target_amqp_publisher_events { /* on the publisher's thread */
    void (*settled)(void *ctx);       /* the list of settled ones was empty and is not any more */
    void (*ended)(void *ctx);         /* the thread does nothing more: join it */
};

struct target_amqp_publisher;

/* All of these on the reactor's thread. NULL: out of memory or descriptors. What it is given outlives
 * it. */
struct target_amqp_publisher *target_amqp_publisher_new(
    struct guard *guard, const struct target_amqp_place *place, const char *version,
    const struct target_amqp_publisher_events *events, void *ctx);
/* After `ended`, or where it was never started: waits for the end of the thread. NULL is fine. */
void target_amqp_publisher_free(struct target_amqp_publisher *publisher);

/* What is under way is given up and settled; `ended` follows, within the call where there is no
 * thread. `at_once`: without taking leave of the broker, for a thread that may be in the midst of
 * something. */
void target_amqp_publisher_stop(struct target_amqp_publisher *publisher, bool at_once);

/* The messages of a list, which is empty afterwards. The first ones start the thread; where that
 * cannot be they are settled, and `settled` comes within the call. */
void target_amqp_publisher_send(struct target_amqp_publisher *publisher, struct list *messages);
/* Those that are settled, added to `out`. */
void target_amqp_publisher_take_settled(struct target_amqp_publisher *publisher, struct list *out);
/* Its time is over. True: it never left, and is the caller's again. False: it may have been sent;
 * it comes among the settled ones later. `trouble` (TARGET_ERROR_BYTES): what was wrong, or empty.
 */
bool target_amqp_publisher_give_up(struct target_amqp_publisher *publisher,
                                   struct target_amqp_message *message, char *trouble);

#endif
