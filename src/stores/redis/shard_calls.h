/*
 * shard_calls: the calls of the queue (queue.h), as a shard carries them out: each reports to
 * `reply_to` once, never inside the call.
 */
#ifndef TARRY_REDIS_SHARD_CALLS_H
#define TARRY_REDIS_SHARD_CALLS_H

#include "redis/shard_core.h"

/* Submits push, answer, change: in batches, with a result for each item. */
void redis_submit_items(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to);
/* Submits take: in batches. A take by id, or by priority, is a separate call. */
void redis_submit_take(struct redis_shard *shard, const struct command *command,
                       struct queue_reply_to reply_to);
/* Submits get, list, topic, topics, forecast, find: each as a separate call. */
void redis_submit_ask(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to);

/* ---- shard_pick.c, shard_find.c: return false without a reply if memory runs out ---- */
bool redis_pick_begin(struct redis_shard *shard, const struct queue_take *take,
                      struct queue_reply_to reply_to);
bool redis_find_begin(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to);

#endif
