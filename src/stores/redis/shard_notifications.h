/*
 * shard_notifications: notifies the queue's owner about topics: a watched topic has ready jobs (queue.h,
 * on_ready), or something happened to it (on_event). The shard learns of it from replies, from
 * messages of other servers, and from a periodic look, which finds changes whose message was lost.
 */
#ifndef TARRY_REDIS_SHARD_NOTIFICATIONS_H
#define TARRY_REDIS_SHARD_NOTIFICATIONS_H

#include "redis/shard_core.h"

#include "job/event.h"

/*
 * shard_feed: passes a shard's events, caused through any server, from its scripts to the feed.
 * While there is a listener here, the scripts are informed of it each second and publish their
 * actions in messages (scripts/README.md, "Events"). A lost connection to the master is reported as
 * a gap. For this room only.
 */

/* Runs in each step, before anything else is sent. Returns the inner time at which it needs to run
 * next. */
int64_t redis_feed_step(struct redis_shard *shard, int64_t now_ms);
/* Notes that messages may have been missed. */
void redis_feed_cut(struct redis_shard *shard);

static inline void redis_notifications_init(struct redis_shard *shard)
{
    list_init(&shard->fresh);
    list_init(&shard->ready);
    list_init(&shard->events);
}
void redis_notifications_fini(struct redis_shard *shard);

/* Implements the queue's `watch`. */
void redis_notifications_watch(struct queue *queue, struct slice topic, bool on);
/* Notes that the topic has ready jobs: its watchers are notified at the end of the step. */
void redis_notification_ready(struct redis_shard *shard, struct slice topic);
/* Returns whether the topic is watched, and its jobs could be delivered when some were last pushed here. */
bool redis_notification_reaches(const struct redis_shard *shard, struct slice topic);
/* Notes whether jobs that were pushed to the topic cannot be delivered now, so that pushes wake no take. */
void redis_notification_hold(struct redis_shard *shard, struct slice topic, bool is_held);
/* Notes an event to be reported at the end of the step; an empty name: any topic. */
void redis_notification_event(struct redis_shard *shard, enum queue_event event,
                              struct slice topic);
/* Handles a message of the shard's channel (scripts/README.md, "News"). */
void redis_notification_receive(struct redis_shard *shard, struct slice message);
/* Sends the noted notifications; those added meanwhile wait for the next round. */
void redis_notifications_deliver(struct redis_shard *shard);
static inline bool redis_notifications_has_some(const struct redis_shard *shard)
{
    return !list_is_empty(&shard->ready) || shard->event_count;
}

/* Looks at recently watched topics only, or at all of them, which also fetches the next event. */
void redis_notifications_check(struct redis_shard *shard, bool all);

#endif
