/*
 * kafka_way: the guard between librdkafka and the network: each name it looks up, of the URL or of
 * the cluster's own list, and each address it connects to is asked about first.
 */
#ifndef TARRY_TARGETS_KAFKA_WAY_H
#define TARRY_TARGETS_KAFKA_WAY_H

#include "guard/guard.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>

/* The opaque of a producer: librdkafka's threads have it. */
struct kafka_way {
    struct guard *guard;
    pthread_mutex_t mutex;
    char why[GUARD_ERROR_BYTES]; /* the last refusal in words; empty: none */
    int64_t refused_ms;          /* when; inner clock */
    uint64_t policy;             /* the guard's generation when it allowed what is open */
    struct kafka_connection *connections;
};

void kafka_way_init(struct kafka_way *way, struct guard *guard);
void kafka_way_fini(struct kafka_way *way);
/* Sets the callbacks and the opaque. `way` outlives the producer. */
void kafka_way_guard(struct kafka_way *way, rd_kafka_conf_t *conf);
/* Ends what is open and not allowed any more, where the policy file was read again. */
void kafka_way_judge(struct kafka_way *way);
/* False: nothing was refused since then (inner clock). */
bool kafka_way_refusal(struct kafka_way *way, int64_t since_ms, char out[GUARD_ERROR_BYTES]);

#endif
