/* handle: a receipt handle: the lease of a delivery, and which job's and which delivery it was. */
#ifndef TARRY_SQS_HANDLE_H
#define TARRY_SQS_HANDLE_H

#include "sqs/operation.h"

struct sqs_handle { /* "LEASE~DELIVERY~ID"; earlier ones are the lease alone */
    struct slice lease, id;
    uint64_t delivery;
};

/* As a JSON string. */
void sqs_handle_write(const struct queue_job *taken, struct buffer *out);
/* Slices point into the text. False: it is none. */
bool sqs_handle_read(struct slice text, struct sqs_handle *out);

#endif
