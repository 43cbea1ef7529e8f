/*
 * amqp_in_message: converts a RabbitMQ message into a job: its due time, its destination and all its
 * properties, so that they are published again unchanged. Pure except for the clock that it is
 * given.
 *
 * Headers that are read:
 *   x-delay          milliseconds, as any number or a numeric string; negative: immediately
 *   x-deliver-at     alternative: milliseconds since 1970, RFC 3339, or an AMQP timestamp
 *   x-exchange       destination exchange; default: the exchange of the source URL, else the
 *                    exchange that the message came through without a trailing ".delayed", else
 *                    the default exchange
 *   x-routing-key    routing key; default: the key of the message
 *   traceparent      and tracestate: the trace context of the message, which the job carries
 * Changed properties: x-delay is negated, as by the delayed-message plugin. user_id, which only
 * that user may publish, and x-delivery-count, which a queue adds, are removed.
 */
#ifndef TARRY_INTAKE_AMQP_MESSAGE_H
#define TARRY_INTAKE_AMQP_MESSAGE_H

#include "intake/amqp/source.h"
#include "intake/kind.h"

#include <amqp.h>
#include <amqp_framing.h>

/* Reads the delay from the headers. On false, `why` (INTAKE_ERROR_BYTES) describes the problem. */
bool amqp_in_delay_read(const amqp_table_t *headers, struct queue_when *out, char *why);

/* Makes a job from a message; release *out with free(). On a refusal, `why` (INTAKE_ERROR_BYTES)
 * describes the reason. */
enum intake_refusal amqp_in_message_take(const struct amqp_in_source *source,
                                         const amqp_envelope_t *envelope, struct intake_job **out,
                                         char *why);

#endif
