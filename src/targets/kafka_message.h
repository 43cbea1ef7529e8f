/* kafka_message: a job as topic, key and headers of a record. Pure. */
#ifndef TARRY_TARGETS_KAFKA_MESSAGE_H
#define TARRY_TARGETS_KAFKA_MESSAGE_H

#include "targets/target.h"

#include <librdkafka/rdkafka.h>

enum { KAFKA_TOPIC_BYTES_MAX = 249, KAFKA_KEY_BYTES_MAX = 1024 };

struct kafka_message {
    char topic[KAFKA_TOPIC_BYTES_MAX + 1];
    struct buffer key; /* empty: none */
};

/* NULL, or why the message can never be sent. fini it in either case. */
const char *kafka_message_fill(struct kafka_message *out, const struct target_message *message);
void kafka_message_fini(struct kafka_message *message);

/*
 * content-type, tarry-topic, tarry-id, tarry-attempt, tarry-due-at, then the job's meta by their
 * names; a meta called content-type goes as meta-content-type, and tarry's own are not for the
 * cluster. Never NULL.
 */
rd_kafka_headers_t *kafka_message_headers(const struct job *job);

#endif
