/* entries: what a call asks for: itself, or each entry of a batch; and the answer to each. */
#ifndef TARRY_SQS_ENTRIES_H
#define TARRY_SQS_ENTRIES_H

#include "sqs/operation.h"

struct sqs_entries {
    bool is_batch;
    size_t count;
    struct json_value at[SQS_BATCH_MAX]; /* each one's object */
    struct slice ids[SQS_BATCH_MAX];     /* raw, with quotes */
    struct sqs_error errors[SQS_BATCH_MAX];
};

/* False: the batch itself is bad, and the error is set. */
bool sqs_entries_read(const struct sqs_request *request, struct sqs_entries *out,
                      struct sqs_error *error);
/* `write` puts the members of entry `i` that went well, each behind a comma, without braces; NULL: there are none. */
void sqs_entries_answer(const struct sqs_request *request, struct sqs_entries *entries,
                        void (*write)(struct buffer *out, size_t i, void *ctx), void *ctx);

#endif
