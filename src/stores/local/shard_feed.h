/*
 * shard_feed: the events of a shard on their way to the feed.
 *
 * The engine does not have the ids of its jobs: they are read from the records at the end of the
 * step, a bounded number per step. The librarian reads those that are neither in memory nor in the
 * page cache. Events keep their order meanwhile. Waiting events above EVENTS_WAITING_MAX are
 * dropped and reported as a gap; an event whose record is gone is reported without an id. Private
 * to this room, on the shard's thread.
 */
#ifndef TARRY_LOCAL_SHARD_FEED_H
#define TARRY_LOCAL_SHARD_FEED_H

#include "feed/feed.h"
#include "local/shard_core.h"

/* Returns NULL when out of memory. */
struct shard_feed *shard_feed_new(struct shard *shard);
void shard_feed_free(struct shard_feed *feed);

/* Updates the watched kinds, for shard_feed_look. */
void shard_feed_look_again(struct shard *shard);

/* Makes the engine report the kinds that subscribers currently need. Called with each command. */
static inline void shard_feed_look(struct shard *shard)
{
    if (feed_has_changed(&shard->feed_watch))
        shard_feed_look_again(shard);
}

/* Receives an event from the engine's sink, whose context is the shard. */
void shard_feed_event(void *shard, const struct job_event *event, struct hash128 key,
                      struct record_place place);
/* Reports that a job was handed out. */
void shard_feed_delivered(struct shard *shard, const struct job *job, enum job_way way);
/* Reports an event of a topic; `count` is the number of its jobs concerned. */
void shard_feed_topic(struct shard *shard, enum job_event_kind kind, struct slice topic,
                      uint64_t count);

/* Processes some waiting events. Returns whether more can be done now. */
bool shard_feed_step(struct shard *shard);

#endif
