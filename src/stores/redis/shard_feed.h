/*
 * shard_feed: passes a shard's events, caused through any server, from its scripts to the feed.
 * While there is a listener here, the scripts are informed of it each second and publish their
 * actions in messages (scripts/README.md, "Events"). A lost connection to the master is reported as
 * a gap. For this room only.
 */
#ifndef TARRY_REDIS_SHARD_FEED_H
#define TARRY_REDIS_SHARD_FEED_H

#include "job/event.h"
#include "redis/shard_core.h"

/* Runs in each step, before anything else is sent. Returns the inner time at which it needs to run
 * next. */
int64_t redis_feed_step(struct redis_shard *shard, int64_t now_ms);
/* Handles a script's message, from any server. */
void redis_feed_receive(struct redis_shard *shard, struct slice message);
/* Notes that messages may have been missed. */
void redis_feed_cut(struct redis_shard *shard);

#endif
