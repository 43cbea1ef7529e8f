/*
 * shard_feed: what happens in a shard, on its way to the feed.
 *
 * The engine does not know the ids of its jobs: they are read from the records, at the end of the turn,
 * a bounded piece in each; what is neither in RAM nor in the page cache by the librarian. Events keep
 * their order meanwhile. More than EVENTS_WAITING_MAX that wait are lost, and told as a gap; one whose
 * record has gone is told without an id. This room only, on the shard's thread.
 */
#ifndef TARRY_LOCAL_SHARD_FEED_H
#define TARRY_LOCAL_SHARD_FEED_H

#include "feed/feed.h"
#include "local/shard_core.h"

/* NULL: out of memory. */
struct shard_feed *shard_feed_new(struct shard *shard);
void shard_feed_free(struct shard_feed *feed);

/* For shard_feed_look. */
void shard_feed_look_again(struct shard *shard);

/* The engine tells what somebody wants, from now on. Each command comes by here. */
static inline void shard_feed_look(struct shard *shard)
{
    if (feed_has_changed(&shard->feed_watch))
        shard_feed_look_again(shard);
}

/* For the engine's sink, whose context is the shard. */
void shard_feed_event(void *shard, const struct job_event *event, struct hash128 key,
                      struct record_place place);
/* A job was handed out. */
void shard_feed_delivered(struct shard *shard, const struct job *job, enum job_way way);
/* Something happened to a topic; `count`: to so many of its jobs. */
void shard_feed_topic(struct shard *shard, enum job_event_kind kind, struct slice topic,
                      uint64_t count);

/* A piece of what waits. Whether there is more to do now. */
bool shard_feed_step(struct shard *shard);

#endif
