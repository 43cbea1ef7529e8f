/*
 * source: the source URL of --kafka-in: kafka://HOST[:PORT][,…]?from=TOPIC[&…]. Pure.
 *
 *   from    the topic of Kafka that is read
 *   group   consumer group (default: "tarry")
 *   topic   topic of the jobs (default: "kafka-in")
 *   to      destination of records that do not name one (default: `from` without ".delayed")
 */
#ifndef TARRY_INTAKE_KAFKA_SOURCE_H
#define TARRY_INTAKE_KAFKA_SOURCE_H

#include "intake/intake.h"
#include "job/job.h"
#include "targets/kafka/way.h"

enum { KAFKA_IN_NAME_BYTES = 250 }; /* of a topic or a group, with the NUL */

struct kafka_in_source {
    struct kafka_place cluster;
    struct slice place; /* the URL without its parameters; points into the parsed text */
    char from[KAFKA_IN_NAME_BYTES], to[KAFKA_IN_NAME_BYTES], group[KAFKA_IN_NAME_BYTES];
    char topic[JOB_TOPIC_BYTES_MAX + 1];
};

/* Returns true if Kafka allows this name of a topic. */
bool kafka_in_topic_is_valid(struct slice name);

/* Parses a source URL. On false, `error` (INTAKE_ERROR_BYTES) describes the problem and a valid
 * value. */
bool kafka_in_source_parse(struct slice text, struct kafka_in_source *out, char *error);

#endif
