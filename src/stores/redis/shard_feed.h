/*
 * shard_feed: what happens in a shard, through whatever server, from its scripts to the feed.
 *
 * While somebody listens here the scripts are told so each second, and say in a message what they do
 * (scripts/README.md, "Events"). A cut of the way to the master is told as a gap. This room only.
 */
#ifndef TARRY_REDIS_SHARD_FEED_H
#define TARRY_REDIS_SHARD_FEED_H

#include "job/event.h"
#include "redis/shard_core.h"

/* In each turn, before anything else is sent. Returns the inner time of the turn it wants. */
int64_t redis_feed_turn(struct redis_shard *shard, int64_t now_ms);
/* A message of a script, wherever it was called from. */
void redis_feed_hear(struct redis_shard *shard, struct slice message);
/* Messages may have been missed. */
void redis_feed_cut(struct redis_shard *shard);

#endif
