/*
 * shard_news: what a shard tells its queue's owner of topics: that one which somebody watches has
 * something ready (queue.h, on_ready), and what happened to them (on_event). It hears of it by answers,
 * by messages of other servers, and by a look, which makes good what no message told.
 */
#ifndef TARRY_REDIS_SHARD_NEWS_H
#define TARRY_REDIS_SHARD_NEWS_H

#include "redis/shard_core.h"

static inline void redis_news_init(struct redis_shard *shard)
{
    list_init(&shard->fresh);
    list_init(&shard->ready);
    list_init(&shard->events);
}
void redis_news_fini(struct redis_shard *shard);

/* The queue's `watch`. */
void redis_news_watch(struct queue *queue, struct slice topic, bool on);
/* The topic has ready jobs: whoever watches it is told at the end of the turn. */
void redis_news_ready(struct redis_shard *shard, struct slice topic);
/* Is told at the end of the turn; an empty name: any topic. */
void redis_news_event(struct redis_shard *shard, enum queue_event event, struct slice topic);
/* A message of the shard's channel (scripts/README.md, "News"). */
void redis_news_hear(struct redis_shard *shard, struct slice message);
/* Tells what is to be told; what is noted meanwhile waits for the next round. */
void redis_news_tell(struct redis_shard *shard);
static inline bool redis_news_has_some(const struct redis_shard *shard)
{
    return !list_is_empty(&shard->ready) || shard->event_count;
}

/* Looks at those watched only just now; or at all, which also asks for the next event. */
void redis_news_look(struct redis_shard *shard, bool all);

#endif
