/* handle: a receipt handle: the lease of a delivery, which proves that the caller received the
 * message, and the id of its job. */
#ifndef TARRY_SQS_HANDLE_H
#define TARRY_SQS_HANDLE_H

#include "sqs/operation.h"

struct sqs_handle { /* "LEASE~ID", or only LEASE, which cannot delete after the lease has ended */
    struct slice lease, id;
};

/* Writes the handle as a JSON string. */
void sqs_handle_write(const struct queue_job *taken, struct buffer *out);
/* Parses a handle; slices point into the text. Returns false if the text is not a handle. */
bool sqs_handle_read(struct slice text, struct sqs_handle *out);

#endif
