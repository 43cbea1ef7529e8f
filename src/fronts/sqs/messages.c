/* The operations on messages. */
#include "sqs/messages.h"

const struct sqs_operation sqs_message_operations[] = {
    {"SendMessage", SQS_NAMES_URL, ACCESS_PUSH, NULL, sqs_send, NULL, NULL},
    {"SendMessageBatch", SQS_NAMES_URL, ACCESS_PUSH, NULL, sqs_send, "SendMessageBatchRequestEntry",
     NULL},
    {"ReceiveMessage", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_receive, NULL, NULL},
    {"DeleteMessage", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release, NULL, NULL},
    {"DeleteMessageBatch", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release,
     "DeleteMessageBatchRequestEntry", NULL},
    {"ChangeMessageVisibility", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release, NULL, NULL},
    {"ChangeMessageVisibilityBatch", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release,
     "ChangeMessageVisibilityBatchRequestEntry", NULL},
    {0},
};
