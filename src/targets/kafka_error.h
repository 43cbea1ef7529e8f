/* kafka_error: what librdkafka's errors mean for a job. Pure. */
#ifndef TARRY_TARGETS_KAFKA_ERROR_H
#define TARRY_TARGETS_KAFKA_ERROR_H

#include "targets/target.h"

#include <librdkafka/rdkafka.h>

/* From here on a message travels in a batch of its own, so what is said of the batch's size is said
 * of the message's. */
enum { KAFKA_BATCH_BYTES_MAX = 128 * 1024 };

/*
 * The report for a message of `bytes` that ended with `error`. `status`: what is known of its way.
 * `timeout_ms`: its time, for the text.
 */
void kafka_error_report(rd_kafka_resp_err_t error, rd_kafka_msg_status_t status, size_t bytes,
                        int64_t timeout_ms, struct target_report *out);
/* Why no broker can be reached, in words. */
const char *kafka_error_words(rd_kafka_resp_err_t error);

#endif
