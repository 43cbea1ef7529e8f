/* operation: the tables of SQS operations and their handlers. */
#ifndef TARRY_SQS_OPERATION_H
#define TARRY_SQS_OPERATION_H

#include "sqs/request.h"
#include "sqs/topics.h"

enum sqs_names {
    SQS_NAMES_NOTHING = 1,
    SQS_NAMES_URL,  /* QueueUrl */
    SQS_NAMES_NAME, /* QueueName */
    SQS_NAMES_NEW   /* QueueName of a queue that need not exist */
};

struct sqs_operation {
    const char *name;
    enum sqs_names names;
    uint8_t scopes; /* bits of enum access_scope; one of them is required for the queue */
    /* Handles the call and replies, immediately or later. `topic`: its current state; NULL: the
     * call names no queue, or a new one. If both are NULL the operation is unsupported, and `why`
     * is the reason. */
    void (*act)(struct sqs_request *request, const struct queue_topic *topic);
    /* In place of `act`, for an operation on messages, which only needs these settings. */
    void (*message)(struct sqs_request *request, const struct sqs_numbers *queue);
    const char *why; /* of a batch of messages: the name of its entries */
    const char
        *audit; /* its name in the audit log; NULL: not recorded. All of scope admin have one */
};

/* Tables that end with a row without a name. */
extern const struct sqs_operation sqs_queue_operations[];
extern const struct sqs_operation sqs_move_operations[];

#endif
