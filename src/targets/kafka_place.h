/*
 * kafka_place: a URL of a Kafka cluster, read. Pure.
 *
 *   kafka://host[:9092][,host[:9092]…]      kafkas://host[:9093][,…] by TLS
 */
#ifndef TARRY_TARGETS_KAFKA_PLACE_H
#define TARRY_TARGETS_KAFKA_PLACE_H

#include "base/buffer.h"

enum { KAFKA_BROKERS_MAX = 16, KAFKA_HOST_BYTES_MAX = 255, KAFKA_SERVERS_BYTES = 4608 };

struct kafka_place {
    bool is_tls;
    char servers[KAFKA_SERVERS_BYTES];      /* "host:port,host:port" */
    char origin[KAFKA_HOST_BYTES_MAX + 32]; /* of the first, as credentials are kept by */
};

/* False: `error` (TARGET_ERROR_BYTES) says what is wrong and what would be right. */
bool kafka_place_parse(struct slice url, struct kafka_place *out, char *error);

#endif
