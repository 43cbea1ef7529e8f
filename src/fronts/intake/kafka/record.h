/*
 * kafka_in_record: converts a record of Kafka into a job: its due time, its destination, its key and
 * all its headers, so that they are published again unchanged. Pure; time is an argument.
 *
 * Headers that are read, and not published again:
 *   x-delay        milliseconds after the record's timestamp; negative: immediately
 *   x-deliver-at   alternative: milliseconds since 1970 or RFC 3339
 *   x-topic        destination; default: that of the source URL
 * traceparent and tracestate are the trace context of the record, which the job carries.
 */
#ifndef TARRY_INTAKE_KAFKA_RECORD_H
#define TARRY_INTAKE_KAFKA_RECORD_H

#include "intake/kafka/source.h"
#include "intake/kind.h"

#define KAFKA_IN_HEADER_TOPIC "x-topic"

/* Makes a job from a record; release *out with free(). Its id names the place of the record, so the
 * same record has the same id each time that it is read. `now_ms` is wall time: a timestamp after
 * it is not believed. On a refusal, `why` (INTAKE_ERROR_BYTES) describes the reason. */
enum intake_refusal kafka_in_record_take(const struct kafka_in_source *source,
                                         const rd_kafka_message_t *record, int64_t now_ms,
                                         struct intake_job **out, char *why);

#endif
