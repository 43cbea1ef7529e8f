/*
 * kafka_record: what a record of Kafka has besides its body and topic, in the meta of a job: its key
 * and its headers. A job of --kafka-in has it, so that the record is published again unchanged. Pure.
 */
#ifndef TARRY_TARGETS_KAFKA_RECORD_H
#define TARRY_TARGETS_KAFKA_RECORD_H

#include "base/buffer.h"
#include "job/job.h"

#include <librdkafka/rdkafka.h>

/* The record as encoded here (parts.h). */
#define TARGET_KAFKA_META_RECORD JOB_META_OWN "kafka-record-"
/* Its destination, for templates. */
#define TARGET_KAFKA_META_TOPIC JOB_META_OWN "kafka-topic"
#define TARGET_KAFKA_HEADER_TOPIC "tarry-topic"
#define TARGET_KAFKA_HEADER_ID "tarry-id"
#define TARGET_KAFKA_HEADER_ATTEMPT "tarry-attempt"
#define TARGET_KAFKA_HEADER_DUE_AT "tarry-due-at"
/* Of the attributes of an event, as the Kafka binding of CloudEvents has it. */
#define TARGET_KAFKA_EVENT_PREFIX "ce_"

struct kafka_record_parts {
    struct slice key; /* at: NULL: the record has no key */
    bool has_body;    /* false: a tombstone */
};

/* Appends the record without the headers that `drops` returns true for. */
void kafka_record_encode(struct buffer *out, const struct kafka_record_parts *parts,
                         const rd_kafka_headers_t *headers, bool (*drops)(struct slice name));
/* Reads a record, and appends its headers, but without those that `drops` returns true for. The key
 * points into `encoded`. Returns false if it is malformed. */
bool kafka_record_decode(struct slice encoded, struct kafka_record_parts *out,
                         rd_kafka_headers_t *headers, bool (*drops)(struct slice name, void *ctx),
                         void *ctx);

#endif
