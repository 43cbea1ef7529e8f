/*
 * shard_step: the requests of one step that travel in one call of the script `step`: answers and
 * takes, as batches (shard_batch.h), and making jobs due.
 *
 * One step is in progress at a time while the next one grows; a second one is sent only if its
 * batches are fully grown.
 */
#ifndef TARRY_REDIS_SHARD_STEP_H
#define TARRY_REDIS_SHARD_STEP_H

#include "redis/shard_batch.h"

/* Makes the next step process due jobs, even without a take. */
void redis_step_let_due(struct redis_shard *shard);
/* Returns whether a step that processes due jobs is in progress or about to be sent. */
bool redis_step_lets_due(const struct redis_shard *shard);
/* Returns whether the next step contains a take of the topic. */
bool redis_step_takes(const struct redis_shard *shard, struct slice topic);
/* Sends the steps that may be sent now. `soon`: another step is expected in a moment, so answers
 * without takes wait for it, but no longer than REDIS_ANSWERS_WAIT_US. */
enum { REDIS_ANSWERS_WAIT_US = 1000 };
void redis_step_send(struct redis_shard *shard, bool soon);

#endif
