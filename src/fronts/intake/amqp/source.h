/*
 * source: the source URL of --amqp-in: amqp://HOST[:PORT][/VHOST]?queue=NAME[&…]. Pure.
 *
 *   queue      the queue, which must exist
 *   topic      topic of the jobs (default: "amqp-in")
 *   exchange   destination of messages that do not name one
 *   prefetch   maximum number of unacknowledged messages (default: 256)
 */
#ifndef TARRY_INTAKE_AMQP_SOURCE_H
#define TARRY_INTAKE_AMQP_SOURCE_H

#include "intake/intake.h"
#include "job/job.h"
#include "targets/amqp/connection.h"

enum { AMQP_IN_PREFETCH = 256, AMQP_IN_PREFETCH_MAX = 4096 };

struct amqp_in_source {
    struct target_amqp_place broker;
    struct slice place; /* the URL without its parameters; points into the parsed text */
    char queue[TARGET_NAME_BYTES], exchange[TARGET_NAME_BYTES];
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    bool has_exchange;
    uint32_t prefetch;
};

/* Parses a source URL. On false, `error` (INTAKE_ERROR_BYTES) describes the problem and a valid
 * value. */
bool amqp_in_source_parse(struct slice text, struct amqp_in_source *out, char *error);

#endif
