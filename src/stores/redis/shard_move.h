/*
 * shard_move: a shard on its way to the next generation (generation.h, decision 36): hears how far it
 * is, and moves what it holds, page by page. Any server does that, whoever comes first; the scripts
 * leave, arrive and drop see to it that two at once do no harm, and that a page is gone on with
 * whoever began it. For redis/shard*.c only.
 */
#ifndef TARRY_REDIS_SHARD_MOVE_H
#define TARRY_REDIS_SHARD_MOVE_H

#include "redis/shard_core.h"

/* What a look says of it. */
void redis_move_hear(struct redis_shard *shard, struct slice rest);
/* In each turn; returns the inner time of the one it wants next. */
int64_t redis_move_turn(struct redis_shard *shard, int64_t now_ms, bool looks);

#endif
