/*
 * shard_calls: how a shard carries out the calls of the queue (queue.h): each says so to `reply_to`
 * once, never inside the call.
 */
#ifndef TARRY_REDIS_SHARD_CALLS_H
#define TARRY_REDIS_SHARD_CALLS_H

#include "redis/shard_core.h"

/* push, answer, change: in batches, a result for each item. */
void redis_submit_items(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to);
/* take: in batches; of one by its id, and by priority, each a call of its own. */
void redis_submit_take(struct redis_shard *shard, const struct command *command,
                       struct queue_reply_to reply_to);
/* get, list, topic, topics, forecast, find: each a call of its own. */
void redis_submit_ask(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to);

/* ---- shard_pick.c, shard_find.c: false: out of memory, and nothing is replied ---- */
bool redis_pick_begin(struct redis_shard *shard, const struct queue_take *take,
                      struct queue_reply_to reply_to);
bool redis_find_begin(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to);

#endif
