/* handle: a receipt handle: the lease of a delivery, which proves that the caller received the message, and the id of its job. */
#ifndef TARRY_SQS_HANDLE_H
#define TARRY_SQS_HANDLE_H

#include "sqs/operation.h"

struct sqs_handle { /* "LEASE~ID"; a lease alone is one too, by which nothing is deleted late */
    struct slice lease, id;
};

/* As a JSON string. */
void sqs_handle_write(const struct queue_job *taken, struct buffer *out);
/* Slices point into the text. False: it is not a handle. */
bool sqs_handle_read(struct slice text, struct sqs_handle *out);

#endif
