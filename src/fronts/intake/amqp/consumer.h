/*
 * consumer: the thread that reads messages from a RabbitMQ queue, passes them on in batches, and
 * acknowledges each message after it is stored.
 *
 * A message that can never be accepted is rejected without requeue, so the dead-letter exchange of
 * the queue gets it. A message that cannot be accepted now stays here, unacknowledged, and is
 * offered again every second. The prefetch limits what the broker sends, so consumption pauses
 * meanwhile. Reconnects forever: after 100 ms, doubling up to 5 s until a connection has proven
 * stable.
 *
 * librabbitmq reads nothing after a message that it cannot decode. Such a message is rejected like
 * any other that can never be accepted, and the connection is reopened immediately.
 */
#ifndef TARRY_INTAKE_AMQP_CONSUMER_H
#define TARRY_INTAKE_AMQP_CONSUMER_H

#include "intake/amqp/message.h"
#include "intake/kind.h"
#include "targets/amqp/connection.h"
#include "targets/target.h"

struct amqp_in_consumer;

/* Creates a consumer. Returns 0 or a negative errno. `guard`, `source`, `version` and `counts` must
 * outlive it. */
int amqp_in_consumer_new(struct guard *guard, const struct amqp_in_source *source,
                         const char *version, struct intake_counts *counts,
                         const struct intake_events *events, void *ctx,
                         struct amqp_in_consumer **out);
/* Starts the thread. Returns false if that fails. */
bool amqp_in_consumer_start(struct amqp_in_consumer *consumer);
/* Frees the consumer after its thread has ended, and stops the thread immediately if it was not
 * asked to stop. Does not wait for batches that have not come back. NULL is allowed. */
void amqp_in_consumer_free(struct amqp_in_consumer *consumer);

/* ---- any thread ---- */

/* Returns a batch to the consumer. */
void amqp_in_consumer_settle(struct amqp_in_consumer *consumer, struct intake_batch *batch);
/* Stops reading, acknowledges batches that come back within two seconds, then ends. `at_once` also
 * interrupts a blocking call. */
void amqp_in_consumer_stop(struct amqp_in_consumer *consumer, bool at_once);

#endif
