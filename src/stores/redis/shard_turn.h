/*
 * shard_turn: what came in a turn of a shard and travels in one call of the script `turn`: answers and
 * takes, as batches (shard_batch.h), and letting due things happen.
 *
 * One turn is under way at a time, and the next grows meanwhile; only one whose batches are grown is
 * sent besides.
 */
#ifndef TARRY_REDIS_SHARD_TURN_H
#define TARRY_REDIS_SHARD_TURN_H

#include "redis/shard_batch.h"

/* The next turn lets what is due happen, whether anybody takes it or not. */
void redis_turn_let_due(struct redis_shard *shard);
/* Whether a turn that does so is under way, or about to be. */
bool redis_turn_lets_due(const struct redis_shard *shard);
/* Whether somebody's take of the topic goes with the next turn. */
bool redis_turn_takes(const struct redis_shard *shard, struct slice topic);
/* Sends what may be sent now. `soon`: a turn will be wanted within a moment, so answers alone wait for it, but
 * not for longer than REDIS_ANSWERS_WAIT_US. */
enum { REDIS_ANSWERS_WAIT_US = 1000 };
void redis_turn_send(struct redis_shard *shard, bool soon);

#endif
