/*
 * amqp_message: a message on its way to RabbitMQ: what is kept of a job, and the properties it is
 * published with.
 *
 * A job that came from RabbitMQ carries the properties it had, as metas of the names below: they
 * are published as they were. Any other gets content_type, message_id (the job's id), timestamp,
 * delivery_mode 2 and its meta as headers. Both get the headers tarry-topic, tarry-id,
 * tarry-attempt and tarry-due-at, by which a returned message is known again.
 */
#ifndef TARRY_TARGETS_AMQP_MESSAGE_H
#define TARRY_TARGETS_AMQP_MESSAGE_H

#include "targets/outbox.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <stdatomic.h>

/* The properties in their wire form, base64, in parts of at most a meta's value; numbered from 1.
 */
#define TARGET_AMQP_META_PROPERTIES JOB_META_OWN "amqp-properties-"
/* Where a message from RabbitMQ goes, for templates. */
#define TARGET_AMQP_META_EXCHANGE JOB_META_OWN "amqp-exchange"
#define TARGET_AMQP_META_ROUTING_KEY JOB_META_OWN "amqp-routing-key"
#define TARGET_AMQP_HEADER_TOPIC "tarry-topic"
#define TARGET_AMQP_HEADER_ID "tarry-id"
#define TARGET_AMQP_HEADER_ATTEMPT "tarry-attempt"
#define TARGET_AMQP_HEADER_DUE_AT "tarry-due-at"

enum { TARGET_AMQP_TEXT_BYTES_MAX = 255 }; /* of exchanges, routing keys: short strings */

struct target_amqp_message {
    struct outbox_message message; /* first: the reactor's */
    struct list list;              /* the publisher's: queue, careful, settled; not in a ring */
    bool is_queued;                /* certainly not sent; under the publisher's lock */
    atomic_bool is_abandoned;      /* its time was over while it may have been sent */
    bool is_returned;              /* no queue was there for it */
    struct target_report result;   /* what became of it, by the publisher's thread */
    /* what is published */
    uint32_t attempt;
    int64_t due_ms;
    struct slice topic, id, content_type, meta, body, exchange, routing_key;
    char bytes[];
};

/* An exchange as the protocol names it. RabbitMQ calls the default exchange "amq.default" in its
 * permissions and tools, and "" in the protocol. */
struct slice target_amqp_exchange(struct slice name);

/* A copy of all that is needed. NULL: out of memory. Freed by free. */
struct target_amqp_message *target_amqp_message_new(const struct job *job, struct slice exchange,
                                                    struct slice routing_key);

/* What it is published with; points into the message and into `pool`. False: the properties it
 * carries are malformed, or out of memory. */
bool target_amqp_message_properties(const struct target_amqp_message *message, amqp_pool_t *pool,
                                    amqp_basic_properties_t *out);
/* Is a returned message, which has these properties, this one? */
bool target_amqp_message_is(const struct target_amqp_message *message,
                            const amqp_basic_properties_t *properties);

#endif
