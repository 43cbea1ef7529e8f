/*
 * job: a message from RabbitMQ as a job: when it is due, where it goes, and all its properties, so
 * that they come out again as they were. Pure but for the clock it is given.
 *
 * Headers that are read:
 *   x-delay          milliseconds; any number, or a text that is one. Negative: now
 *   x-deliver-at     instead: milliseconds since 1970, RFC 3339, or an AMQP timestamp
 *   x-exchange       where it goes; else what the source says; else the exchange it came through
 *                    without ".delayed" at its end; else the default exchange
 *   x-routing-key    else the one it came with
 *   traceparent      and tracestate: the context of the message's trace, which the job then carries
 * What is changed: x-delay is negated, as the delayed-message plugin does it; user_id, which only
 * its own user may publish, and x-delivery-count, which a queue adds, are left out.
 */
#ifndef TARRY_AMQP_JOB_H
#define TARRY_AMQP_JOB_H

#include "base/list.h"
#include "intake/source.h"
#include "queue/queue.h"

#include <amqp.h>
#include <amqp_framing.h>

enum amqp_in_refusal { /* why a message can never be taken */
                       AMQP_IN_TAKEN = 0,
                       AMQP_IN_BAD_DELAY,
                       AMQP_IN_BAD_DESTINATION,
                       AMQP_IN_PROPERTIES_TOO_BIG,
                       AMQP_IN_UNDECODABLE,
                       AMQP_IN_NO_MEMORY, /* that one is taken later */
                       AMQP_IN_BODY_TOO_BIG,
                       AMQP_IN_BAD_JOB /* the queue said so; the last one */
};
const char *amqp_in_refusal_name(enum amqp_in_refusal refusal); /* "bad_delay", … */

struct amqp_in_job {
    struct list list;
    uint64_t delivery_tag;
    struct queue_when when;
    enum queue_status status; /* what became of the push */
    bool may_be_there;        /* it was delivered before, or pushed without a clear answer */
    struct slice id, content_type, meta, body;
    char bytes[];
};

#define AMQP_IN_HEADER_DELAY "x-delay"
#define AMQP_IN_HEADER_AT "x-deliver-at"

/* When the headers want it. False: `why` (AMQP_IN_ERROR_BYTES) says what is wrong. */
bool amqp_in_delay_read(const amqp_table_t *headers, struct queue_when *out, char *why);

/* *out is to be freed by free. Else why not; `why` (AMQP_IN_ERROR_BYTES) says it in words. */
enum amqp_in_refusal amqp_in_job_make(const struct amqp_in_source *source,
                                      const amqp_envelope_t *envelope, struct amqp_in_job **out,
                                      char *why);

#endif
