/*
 * shard_move: moves a shard's jobs to the next generation (generation.h, decision 36). It tracks
 * the shard's progress and moves its contents page by page. Any server may do this; the first one
 * to try does. The scripts leave, arrive and drop ensure that two servers do no harm to each other, and
 * that any server can continue a page that another has begun. For redis/shard*.c only.
 */
#ifndef TARRY_REDIS_SHARD_MOVE_H
#define TARRY_REDIS_SHARD_MOVE_H

#include "redis/shard_core.h"

/* Takes in the state of the move from the reply of the script look. */
void redis_move_receive(struct redis_shard *shard, struct slice rest);
/* Runs in each step. Returns the inner time at which it needs to run next. */
int64_t redis_move_step(struct redis_shard *shard, int64_t now_ms, bool looks);

#endif
