/*
 * amqp_message: a message to RabbitMQ: the copied data of a job, and the properties of the message.
 *
 * A job that came from RabbitMQ has its original properties as metas with the names below. They are
 * published unchanged. Other jobs get content_type, message_id (the job's ID), timestamp,
 * delivery_mode 2, and their meta as headers. Both get the headers tarry-topic, tarry-id,
 * tarry-attempt and tarry-due-at, which identify a returned message, and those of an event.
 */
#ifndef TARRY_TARGETS_AMQP_MESSAGE_H
#define TARRY_TARGETS_AMQP_MESSAGE_H

#include "targets/outbox.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <stdatomic.h>

/* The properties in their wire format (parts.h). */
#define TARGET_AMQP_META_PROPERTIES JOB_META_OWN "amqp-properties-"
/* The destination of a message from RabbitMQ, for templates. */
#define TARGET_AMQP_META_EXCHANGE JOB_META_OWN "amqp-exchange"
#define TARGET_AMQP_META_ROUTING_KEY JOB_META_OWN "amqp-routing-key"
#define TARGET_AMQP_HEADER_TOPIC "tarry-topic"
#define TARGET_AMQP_HEADER_ID "tarry-id"
#define TARGET_AMQP_HEADER_ATTEMPT "tarry-attempt"
#define TARGET_AMQP_HEADER_DUE_AT "tarry-due-at"
/* Of the attributes of an event, as Knative and the libraries of CloudEvents use it on RabbitMQ. */
#define TARGET_AMQP_EVENT_PREFIX "ce-"

enum { TARGET_AMQP_TEXT_BYTES_MAX = 255 }; /* for exchanges and routing keys: short strings */

struct target_amqp_message {
    struct outbox_message message; /* first; for the reactor */
    struct list list;              /* for the publisher: queue, careful, settled; not in a ring */
    bool is_queued;                /* certainly not sent; protected by the publisher's lock */
    atomic_bool is_abandoned;      /* timed out after it may have been sent */
    bool is_returned;              /* the broker had no queue for it */
    struct target_report result;   /* result, set by the publisher's thread */
    /* what is published */
    uint32_t attempt;
    int64_t due_ms;
    struct slice topic, id, content_type, meta, attributes, body, exchange, routing_key;
    char bytes[];
};

/* Returns the exchange name for the protocol. RabbitMQ's permissions and tools call the default
 * exchange "amq.default"; in the protocol it is "". */
struct slice target_amqp_exchange(struct slice name);

/* Copies everything that is needed. Returns NULL when out of memory. Freed with free(). */
struct target_amqp_message *target_amqp_message_new(const struct job *job, struct slice attributes,
                                                    struct slice exchange,
                                                    struct slice routing_key);

/* Fills in the properties; they point into the message and into `pool`. Returns false when out of
 * memory, or if the job's stored properties are malformed. */
bool target_amqp_message_properties(const struct target_amqp_message *message, amqp_pool_t *pool,
                                    amqp_basic_properties_t *out);
/* Returns true if a returned message with these properties is this message. */
bool target_amqp_message_is(const struct target_amqp_message *message,
                            const amqp_basic_properties_t *properties);

#endif
