#include "targets/kafka_error.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * What is not here failed, and the cluster is to blame. A topic that is not there and rights that
 * are missing are FAILED: somebody may yet create or grant them; the attempts are bounded.
 */
static const struct row {
    rd_kafka_resp_err_t error;
    enum target_outcome outcome;
    bool is_ailing;
    const char *words;
} rows[] = {
    /* of the message: it would never do */
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, TARGET_REFUSED, false, "too large for the broker"},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, TARGET_REFUSED, false, "too large for the broker"},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, TARGET_REFUSED, false, "too large for the broker"},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, TARGET_REFUSED, false, "the topic's name is not allowed"},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, TARGET_REFUSED, false, "the broker refused the record"},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, TARGET_REFUSED, false, "against the broker's policy"},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, TARGET_REFUSED, false, "the topic's name is not allowed"},
    /* of the topic: somebody may mend it */
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, TARGET_FAILED, false, "no such topic"},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, TARGET_FAILED, false, "no such topic"},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, TARGET_FAILED, false, "no such topic"},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, TARGET_FAILED, false,
     "not allowed to write to the topic"},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, TARGET_FAILED, true,
     "not allowed to write to the cluster"},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, TARGET_FAILED, true, "too few replicas in sync"},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, TARGET_FAILED, true,
     "too few replicas in sync"},
    /* of the way there */
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, TARGET_FAILED, true, "timed out"},
    {RD_KAFKA_RESP_ERR__TIMED_OUT, TARGET_FAILED, true, "timed out"},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, TARGET_UNSENT, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, TARGET_FAILED, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__TRANSPORT, TARGET_FAILED, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, TARGET_FAILED, true, "no broker could be reached"},
    {RD_KAFKA_RESP_ERR__RESOLVE, TARGET_FAILED, true, "a broker's name could not be looked up"},
    {RD_KAFKA_RESP_ERR__SSL, TARGET_FAILED, true, "tls failed"},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, TARGET_FAILED, true, "user or password refused"},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, TARGET_FAILED, true, "user or password refused"},
    {RD_KAFKA_RESP_ERR__QUEUE_FULL, TARGET_UNSENT, false, "too much waits for the cluster already"},
    {RD_KAFKA_RESP_ERR__FATAL, TARGET_FAILED, true, "the producer has to begin anew"},
};

static const struct row *find(rd_kafka_resp_err_t error)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].error == error)
            return &rows[i];
    return NULL;
}

const char *kafka_error_words(rd_kafka_resp_err_t error)
{
    const struct row *row = find(error);
    return row ? row->words : rd_kafka_err2str(error);
}

static bool is_of_size(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
           error == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE ||
           error == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE;
}

static bool is_of_the_way(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT || error == RD_KAFKA_RESP_ERR__TIMED_OUT ||
           error == RD_KAFKA_RESP_ERR__TRANSPORT || error == RD_KAFKA_RESP_ERR__FATAL;
}

void kafka_error_report(rd_kafka_resp_err_t error, rd_kafka_msg_status_t status, size_t bytes,
                        int64_t timeout_ms, struct target_report *out)
{
    const struct row *row = find(error);
    *out = (struct target_report){.outcome = TARGET_DONE, .retry_after_ms = -1};
    if (!error || status == RD_KAFKA_MSG_STATUS_PERSISTED)
        return;
    out->outcome = row ? row->outcome : TARGET_FAILED;
    out->is_ailing = row ? row->is_ailing : true;
    if (is_of_size(error) && bytes < KAFKA_BATCH_BYTES_MAX)
        out->outcome = TARGET_FAILED;
    if (is_of_the_way(error) && status == RD_KAFKA_MSG_STATUS_NOT_PERSISTED)
        out->outcome = TARGET_UNSENT;
    if (error == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)
        (void)snprintf(out->error, sizeof out->error, "kafka: timed out after %" PRId64 " ms",
                       timeout_ms);
    else
        (void)snprintf(out->error, sizeof out->error, "kafka: %s", kafka_error_words(error));
}
