/* operation: the rows of the table of SQS operations, and who carries them out. */
#ifndef TARRY_SQS_OPERATION_H
#define TARRY_SQS_OPERATION_H

#include "sqs/request.h"

enum sqs_names {
    SQS_NAMES_NOTHING = 1,
    SQS_NAMES_URL,  /* QueueUrl */
    SQS_NAMES_NAME, /* QueueName */
    SQS_NAMES_NEW   /* the same, of a queue that need not be there */
};

struct sqs_operation {
    const char *name;
    enum sqs_names names;
    uint8_t scopes; /* enum access_scope: one of them, for the queue */
    /* `topic`: as the queue has it; NULL: the call names none, or a new one. NULL: unsupported, and
     * `why` says so. Answers, now or later. */
    void (*act)(struct sqs_request *request, const struct queue_topic *topic);
    const char *why;
    const char
        *audit; /* what the audit calls it; NULL: it is not recorded. All of scope admin have one */
};

/* Ended by a row without a name. */
extern const struct sqs_operation sqs_queue_operations[];
extern const struct sqs_operation sqs_message_operations[];
extern const struct sqs_operation sqs_move_operations[];

#endif
