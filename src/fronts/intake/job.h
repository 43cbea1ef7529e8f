/*
 * job: converts a RabbitMQ message into a job: its due time, its destination and all its
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
#ifndef TARRY_AMQP_JOB_H
#define TARRY_AMQP_JOB_H

#include "base/list.h"
#include "intake/source.h"
#include "queue/queue.h"

#include <amqp.h>
#include <amqp_framing.h>

enum amqp_in_refusal { /* why a message can never be accepted */
                       AMQP_IN_TAKEN = 0,
                       AMQP_IN_BAD_DELAY,
                       AMQP_IN_BAD_DESTINATION,
                       AMQP_IN_PROPERTIES_TOO_BIG,
                       AMQP_IN_UNDECODABLE,
                       AMQP_IN_NO_MEMORY, /* temporary: the message is accepted later */
                       AMQP_IN_BODY_TOO_BIG,
                       AMQP_IN_BAD_JOB /* rejected by the queue; the last value */
};
const char *amqp_in_refusal_name(enum amqp_in_refusal refusal); /* "bad_delay", … */

struct amqp_in_job {
    struct list list;
    uint64_t delivery_tag;
    struct queue_when when;
    enum queue_status status; /* result of the push */
    bool may_be_there;        /* delivered before, or pushed without a definite answer */
    struct slice id, content_type, meta, body;
    char bytes[];
};

#define AMQP_IN_HEADER_DELAY "x-delay"
#define AMQP_IN_HEADER_AT "x-deliver-at"

/* Reads the delay from the headers. On false, `why` (AMQP_IN_ERROR_BYTES) describes the problem. */
bool amqp_in_delay_read(const amqp_table_t *headers, struct queue_when *out, char *why);

/* Makes a job from a message; release *out with free(). On a refusal, `why` (AMQP_IN_ERROR_BYTES)
 * describes the reason. */
enum amqp_in_refusal amqp_in_job_make(const struct amqp_in_source *source,
                                      const amqp_envelope_t *envelope, struct amqp_in_job **out,
                                      char *why);

#endif
