/*
 * kafka_producer: one idempotent producer of librdkafka's, as seen from a reactor.
 *
 * librdkafka has threads of its own; what they have to tell waits in a queue and a descriptor makes
 * the reactor look. The reactor's thread; no event comes inside a call. A producer that is retired
 * tells no more and goes in the background.
 */
#ifndef TARRY_TARGETS_KAFKA_PRODUCER_H
#define TARRY_TARGETS_KAFKA_PRODUCER_H

#include "targets/kafka_place.h"
#include "targets/target.h"

#include <librdkafka/rdkafka.h>

struct kafka_producer;

struct kafka_producer_events {
    /* A message came to its end; `opaque` as it was produced with. */
    void (*delivered)(void *ctx, void *opaque, rd_kafka_resp_err_t error,
                      rd_kafka_msg_status_t status);
    /* All brokers are down; is_fatal: the producer is of no use any more. */
    void (*trouble)(void *ctx, bool is_fatal, const char *why);
    void (*gone)(void *ctx); /* after retire; the last */
};

/* NULL: `error` says why. Connects when there is something to produce. */
struct kafka_producer *kafka_producer_new(const struct target_env *env,
                                          const struct kafka_place *place,
                                          const struct kafka_producer_events *events, void *ctx,
                                          char error[TARGET_ERROR_BYTES]);
/* `body` and `key` are copied; key.at NULL: none. `headers` are its own from now on. An error:
 * `delivered` will not come. */
rd_kafka_resp_err_t kafka_producer_send(struct kafka_producer *producer, const char *topic,
                                        int64_t timeout_ms, struct slice key, struct slice body,
                                        rd_kafka_headers_t *headers, void *opaque);
/* What the guard refused since then (inner clock): a name or an address that the cluster gave. False:
 * nothing. */
bool kafka_producer_refusal(struct kafka_producer *producer, int64_t since_ms,
                            char out[GUARD_ERROR_BYTES]);
/* Gives up what is under way: `delivered` comes for it, soon. */
void kafka_producer_purge(struct kafka_producer *producer);
/* Nothing is told any more but `gone`. */
void kafka_producer_retire(struct kafka_producer *producer);

#endif
