/* stomp_message: a job as the SEND frame that takes it to a broker. Pure. */
#ifndef TARRY_TARGETS_STOMP_MESSAGE_H
#define TARRY_TARGETS_STOMP_MESSAGE_H

#include "targets/target.h"

/*
 * Headers: destination, receipt (the number), persistent, content-type, content-length,
 * tarry-topic, tarry-id, tarry-attempt, tarry-due-at, then the job's meta by their names; a meta
 * named as one of STOMP's own goes as `meta-NAME`, and tarry's own are not for the broker.
 *
 * What fills in the destination's template can be part of a name and nothing more: brokers read
 * ',', '*', '>' and '?' as several destinations, patterns and options.
 *
 * NULL, or why the message can never be sent; nothing is appended then. `out` may fail.
 */
const char *stomp_message_emit(struct buffer *out, const struct target_message *message,
                               uint64_t receipt);

#endif
