/*
 * amqp_publisher: the thread with the connection of a target, and its exchange with the reactor: a
 * queue of messages to the thread and a list of settled messages back, both protected by a lock.
 *
 * It connects when there is something to send. If the connection is lost, unconfirmed messages
 * fail; queued messages stay in the queue for the next connection. If no connection can be opened,
 * the queue is settled as unsent, and the next attempt waits: 100 ms, doubled up to 5 s. A
 * connection that sent nothing for a minute is closed.
 */
#ifndef TARRY_TARGETS_AMQP_PUBLISHER_H
#define TARRY_TARGETS_AMQP_PUBLISHER_H

#include "targets/amqp/connection.h"
#include "targets/amqp/message.h"

struct target_amqp_publisher_events { /* called on the publisher's thread */
    void (*settled)(void *ctx);       /* the list of settled messages is no longer empty */
    void (*ended)(void *ctx);         /* the thread has ended: join it */
};

struct target_amqp_publisher;

/* Creates a publisher. Returns NULL without memory or descriptors. The arguments outlive the
 * publisher. This and the following functions are called on the reactor's thread. */
struct target_amqp_publisher *target_amqp_publisher_new(
    struct guard *guard, const struct target_amqp_place *place, const char *version,
    const struct target_amqp_publisher_events *events, void *ctx);
/* Waits for the thread to end and frees the publisher; called after `ended`, or if it was never
 * started. Accepts NULL. */
void target_amqp_publisher_free(struct target_amqp_publisher *publisher);

/* Aborts and settles everything; `ended` follows, inside the call if there is no thread. `at_once`:
 * without closing the connection in order, for a thread that may be in the middle of a call. */
void target_amqp_publisher_stop(struct target_amqp_publisher *publisher, bool at_once);

/* Takes the messages of a list, which is empty afterwards. The first call starts the thread; if
 * that fails, the messages are settled and `settled` is called inside the call. */
void target_amqp_publisher_send(struct target_amqp_publisher *publisher, struct list *messages);
/* Appends the settled messages to `out`. */
void target_amqp_publisher_take_settled(struct target_amqp_publisher *publisher, struct list *out);
/* Ends a message after its timeout. Returns true if it was not sent; it then belongs to the calling
 * code again. Returns false if it may have been sent; it will be settled later. `trouble`
 * (TARGET_ERROR_BYTES) receives the current problem, or is empty. */
bool target_amqp_publisher_give_up(struct target_amqp_publisher *publisher,
                                   struct target_amqp_message *message, char *trouble);

#endif
