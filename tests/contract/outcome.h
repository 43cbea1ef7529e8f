/* outcome: a reply kept beyond its callback. */
#ifndef TARRY_TESTS_CONTRACT_OUTCOME_H
#define TARRY_TESTS_CONTRACT_OUTCOME_H

#include "queue/queue.h"

struct outcome {
    struct queue_reply reply; /* points into `blocks` */
    struct outcome_block *blocks;
};

/* A zeroed outcome is an empty one. */
void outcome_copy(struct outcome *outcome, const struct queue_reply *reply);
void outcome_free(struct outcome *outcome);

/* Memory that lives as long as the outcome. */
void *outcome_bytes(struct outcome *outcome, size_t bytes);
struct slice outcome_slice(struct outcome *outcome, struct slice slice);

#endif
