/*
 * kafka_producer: one idempotent producer of librdkafka's, as seen from a reactor.
 *
 * librdkafka has threads of its own; what they have to tell waits in a queue and a descriptor makes
 * the reactor look. The reactor's thread; no event comes inside a call. A producer that is retired
 * tells no more and goes in the background.
 */
#ifndef TARRY_TARGETS_KAFKA_PRODUCER_H
#define TARRY_TARGETS_KAFKA_PRODUCER_H

#include "targets/outbox.h"
#include "targets/place.h"

#include <librdkafka/rdkafka.h>

enum { KAFKA_SERVERS_BYTES = URL_HOSTS_MAX * (URL_HOST_BYTES_MAX + sizeof "[]:65535,") };
/* From here on a message travels in a batch of its own, so what is said of the batch's size is said
 * of the message's. */
enum { KAFKA_BATCH_BYTES_MAX = 128 * 1024 };

/* Where a cluster is: kafka://host[:9092][,host[:9092]…], kafkas://host[:9093][,…] by TLS. */
struct kafka_place {
    struct target_place at;            /* the first broker; its origin names the credential */
    char servers[KAFKA_SERVERS_BYTES]; /* "host:port,host:port" */
};

extern const char *const kafka_schemes[];
/* False: `error` (TARGET_ERROR_BYTES) says what is wrong and what would be right. */
bool kafka_place_parse(struct slice to, struct kafka_place *out, char *error);

struct kafka_producer;

struct kafka_producer_events {
    /* librdkafka hands a message back: this became of it. */
    void (*delivered)(void *ctx, struct outbox_message *message,
                      const struct target_report *report);
    /* All brokers are down; is_fatal: the producer is of no use any more. */
    void (*trouble)(void *ctx, bool is_fatal, const char *why);
    void (*gone)(void *ctx); /* after retire; the last */
};

/* NULL: `error` says why. Connects when there is something to produce. */
struct kafka_producer *kafka_producer_new(const struct target_env *env,
                                          const struct kafka_place *place,
                                          const struct kafka_producer_events *events, void *ctx,
                                          char error[TARGET_ERROR_BYTES]);
/* `body` and `key` are copied; key.at NULL: none. `headers` are its own from now on. It holds
 * `message` until `delivered`; an error: that will not come, *report says what became of it. */
rd_kafka_resp_err_t kafka_producer_send(struct kafka_producer *producer,
                                        struct outbox_message *message, const char *topic,
                                        struct slice key, struct slice body,
                                        rd_kafka_headers_t *headers, struct target_report *report);
/* A message for a broker that the guard refuses (a name or an address that the cluster gave) only
 * runs out of time, as librdkafka sees it: `error` says so then, and stays as it is else. */
void kafka_producer_tell_refusal(struct kafka_producer *producer,
                                 const struct outbox_message *message,
                                 char error[TARGET_ERROR_BYTES]);
/* Gives up what is under way: `delivered` comes for it, soon. */
void kafka_producer_purge(struct kafka_producer *producer);
/* Nothing is told any more but `gone`. */
void kafka_producer_retire(struct kafka_producer *producer);

/* ---- what errors mean ---- */

/*
 * The report for a message of `bytes` that ended with `error`. `status`: what is known of its way.
 * `timeout_ms`: its time, for the text.
 */
void kafka_error_report(rd_kafka_resp_err_t error, rd_kafka_msg_status_t status, size_t bytes,
                        int64_t timeout_ms, struct target_report *out);
/* Why no broker can be reached, in words. */
const char *kafka_error_words(rd_kafka_resp_err_t error);

#endif
