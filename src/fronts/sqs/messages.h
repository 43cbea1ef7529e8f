/* messages: the operations on messages, and the metas in which the front stores SQS properties of a
 * message. */
#ifndef TARRY_SQS_MESSAGES_H
#define TARRY_SQS_MESSAGES_H

#include "sqs/operation.h"

#define SQS_META_SENT JOB_META_OWN "sqs-sent"
#define SQS_META_TRACE JOB_META_OWN "sqs-trace"
#define SQS_META_GROUP JOB_META_OWN "sqs-group"

void sqs_send(struct sqs_request *request, const struct sqs_numbers *queue);
void sqs_receive(struct sqs_request *request, const struct sqs_numbers *queue);
/* Deletes messages or changes their visibility, according to the operation's name. */
void sqs_release(struct sqs_request *request, const struct sqs_numbers *queue);

#endif
