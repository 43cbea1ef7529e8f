/* The operations on messages: of a batch `why` is what its entries are called. */
#include "sqs/messages.h"

const struct sqs_operation sqs_message_operations[] = {
    {"SendMessage", SQS_NAMES_URL, ACCESS_PUSH, sqs_send, NULL},
    {"SendMessageBatch", SQS_NAMES_URL, ACCESS_PUSH, sqs_send, "SendMessageBatchRequestEntry"},
    {"ReceiveMessage", SQS_NAMES_URL, ACCESS_CONSUME, sqs_receive, NULL},
    {"DeleteMessage", SQS_NAMES_URL, ACCESS_CONSUME, sqs_release, NULL},
    {"DeleteMessageBatch", SQS_NAMES_URL, ACCESS_CONSUME, sqs_release,
     "DeleteMessageBatchRequestEntry"},
    {"ChangeMessageVisibility", SQS_NAMES_URL, ACCESS_CONSUME, sqs_release, NULL},
    {"ChangeMessageVisibilityBatch", SQS_NAMES_URL, ACCESS_CONSUME, sqs_release,
     "ChangeMessageVisibilityBatchRequestEntry"},
    {0},
};
