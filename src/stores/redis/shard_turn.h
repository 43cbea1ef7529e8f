/*
 * shard_turn: the requests of one turn that travel in one call of the script `turn`: answers and
 * takes, as batches (shard_batch.h), and making jobs due.
 *
 * One turn is in progress at a time while the next one grows; a second one is sent only if its
 * batches are fully grown.
 */
#ifndef TARRY_REDIS_SHARD_TURN_H
#define TARRY_REDIS_SHARD_TURN_H

#include "redis/shard_batch.h"

/* Makes the next turn process due jobs, even without a take. */
void redis_turn_let_due(struct redis_shard *shard);
/* Returns whether a turn that processes due jobs is in progress or about to be sent. */
bool redis_turn_lets_due(const struct redis_shard *shard);
/* Returns whether the next turn contains a take of the topic. */
bool redis_turn_takes(const struct redis_shard *shard, struct slice topic);
/* Sends the turns that may be sent now. `soon`: another turn is expected in a moment, so answers
 * without takes wait for it, but no longer than REDIS_ANSWERS_WAIT_US. */
enum { REDIS_ANSWERS_WAIT_US = 1000 };
void redis_turn_send(struct redis_shard *shard, bool soon);

#endif
