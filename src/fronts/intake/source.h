/*
 * source: where --amqp-in takes messages from: amqp://HOST[:PORT][/VHOST]?queue=NAME[&…]. Pure.
 *
 *   queue      the queue; it must exist
 *   topic      what its messages are as jobs; "amqp-in"
 *   exchange   where they go, unless they say so themselves
 *   prefetch   how many it may hold without acknowledging; 256
 */
#ifndef TARRY_AMQP_SOURCE_H
#define TARRY_AMQP_SOURCE_H

#include "job/job.h"
#include "targets/amqp_connection.h"

enum { AMQP_IN_ERROR_BYTES = 512, AMQP_IN_PREFETCH = 256, AMQP_IN_PREFETCH_MAX = 4096 };

struct amqp_in_source {
    struct target_amqp_place broker;
    struct slice place; /* the URL without its parameters; points into what was parsed */
    char queue[TARGET_NAME_BYTES], exchange[TARGET_NAME_BYTES];
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    bool has_exchange;
    uint32_t prefetch;
};

/* False: `error` (AMQP_IN_ERROR_BYTES) says what is wrong and what would be right. */
bool amqp_in_source_parse(struct slice text, struct amqp_in_source *out, char *error);

#endif
