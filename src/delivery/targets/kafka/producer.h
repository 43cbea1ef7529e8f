/*
 * kafka_producer: an idempotent producer of librdkafka, used from a reactor.
 *
 * librdkafka has its own threads. Its events are queued, and a descriptor wakes the reactor. Used
 * on the reactor's thread; events never occur inside a call. A retired producer reports no more
 * events and is destroyed in the background.
 */
#ifndef TARRY_TARGETS_KAFKA_PRODUCER_H
#define TARRY_TARGETS_KAFKA_PRODUCER_H

#include "targets/kafka/way.h"
#include "targets/outbox.h"

/* Messages of this size or larger are sent in their own batch, so an error about the batch size
 * applies to the message. */
enum { KAFKA_BATCH_BYTES_MAX = 128 * 1024 };

struct kafka_producer;

struct kafka_producer_events {
    /* Called with the result when librdkafka returns a message. */
    void (*delivered)(void *ctx, struct outbox_message *message,
                      const struct target_report *report);
    /* Called when all brokers are down. is_fatal: the producer can no longer be used. */
    void (*trouble)(void *ctx, bool is_fatal, const char *why);
    void (*gone)(void *ctx); /* called after retire; the last event */
};

/* Returns NULL with `error` on failure. Connects when there is a message to produce. */
struct kafka_producer *kafka_producer_new(const struct target_env *env,
                                          const struct kafka_place *place,
                                          const struct kafka_producer_events *events, void *ctx,
                                          char error[TARGET_ERROR_BYTES]);
/* Produces a message. `body` and `key` are copied; key.at is NULL if there is no key. Takes
 * ownership of `headers`. Holds `message` until `delivered`; after an error, that is not called,
 * and *report is the result. */
rd_kafka_resp_err_t kafka_producer_send(struct kafka_producer *producer,
                                        struct outbox_message *message, const char *topic,
                                        struct slice key, struct slice body,
                                        rd_kafka_headers_t *headers, struct target_report *report);
/* Adds the reason if the guard refused a broker (a name or an address from the cluster). For
 * librdkafka, a message to such a broker just times out. `error` is changed only in that case. */
void kafka_producer_report_refusal(struct kafka_producer *producer,
                                   const struct outbox_message *message,
                                   char error[TARGET_ERROR_BYTES]);
/* Aborts the messages in flight; `delivered` is called for them soon. */
void kafka_producer_purge(struct kafka_producer *producer);
/* Reports no more events except `gone`. */
void kafka_producer_retire(struct kafka_producer *producer);

/* ---- meaning of errors ---- */

/*
 * Makes the report for a message of `bytes` that ended with `error`. `status` is what is known
 * about its delivery. `timeout_ms` is its timeout, for the text.
 */
void kafka_error_report(rd_kafka_resp_err_t error, rd_kafka_msg_status_t status, size_t bytes,
                        int64_t timeout_ms, struct target_report *out);
/* Returns a description of why no broker can be reached. */
const char *kafka_error_words(rd_kafka_resp_err_t error);

#endif
