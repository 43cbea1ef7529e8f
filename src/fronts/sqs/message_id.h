/*
 * message_id: the id of a job as a UUID, which SDKs parse. A ULID is shown as the same 128 bits;
 * any other id as the UUID of version 5 of topic and id (RFC 4122, in a namespace of tarry). Pure.
 */
#ifndef TARRY_SQS_MESSAGE_ID_H
#define TARRY_SQS_MESSAGE_ID_H

#include "base/slice.h"

enum { SQS_MESSAGE_ID_BYTES = 36 };

void sqs_message_id(struct slice topic, struct slice id, char out[SQS_MESSAGE_ID_BYTES]);

#endif
