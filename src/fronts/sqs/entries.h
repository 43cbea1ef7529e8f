/* entries: the entries of a batch, or the single entry of a call that is not a batch; and the reply
 * to each. */
#ifndef TARRY_SQS_ENTRIES_H
#define TARRY_SQS_ENTRIES_H

#include "sqs/operation.h"

struct sqs_entries {
    bool is_batch;
    size_t count;
    struct json_value at[SQS_BATCH_MAX]; /* the object of each entry */
    struct slice ids[SQS_BATCH_MAX];     /* raw, with quotes */
    struct sqs_error errors[SQS_BATCH_MAX];
};

/* Returns false and sets the error if the batch itself is invalid. */
bool sqs_entries_read(const struct sqs_request *request, struct sqs_entries *out,
                      struct sqs_error *error);
/* Writes the reply. `write` appends the members of the successful entry `i`, each preceded by a
 * comma, without braces; NULL: no members. */
void sqs_entries_answer(const struct sqs_request *request, struct sqs_entries *entries,
                        void (*write)(struct buffer *out, size_t i, void *ctx), void *ctx);

#endif
