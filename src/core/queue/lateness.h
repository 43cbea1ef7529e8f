/*
 * lateness: how late jobs were handed out, and at which attempt, by topic and by way.
 *
 * One for a server, shared by all who hand out jobs; any thread, under a lock of its own. So many
 * topics have figures of their own as it was made for; those of all others are summed up. A topic
 * that had no delivery for an hour makes room for one that has, so the figures of a topic may vanish,
 * and begin again at 0. Nothing can go wrong: where there is no memory, a topic is one of the others.
 *
 * Late is from due to handed out, of first attempts: a retry waits for its backoff. Times are wall
 * clock, in milliseconds.
 */
#ifndef TARRY_QUEUE_LATENESS_H
#define TARRY_QUEUE_LATENESS_H

#include "base/metric.h"
#include "job/event.h"
#include "queue/queue.h"

struct lateness;

/* `topics_max` 0: all topics are one. NULL: out of memory. */
struct lateness *lateness_new(uint32_t topics_max);
void lateness_free(struct lateness *lateness);
/* As it was made: how many topics metrics may tell apart, of other rooms as well. */
uint32_t lateness_topics_max(const struct lateness *lateness);

/* These were handed out now, in a way that is known. */
void lateness_add(struct lateness *lateness, enum job_way way, const struct queue_job *jobs,
                  size_t count, int64_t now_ms);
/* The same for one. */
void lateness_add_job(struct lateness *lateness, enum job_way way, const struct job *job,
                      int64_t now_ms);

/*
 * Adds first deliveries of the topic in the last minute (50 to 60 s), of all ways, to `into`, which
 * is counted by lateness_bounds: buckets_at says of it how late, buckets_total how many. An empty
 * name: of all topics together. A topic without figures of its own has none.
 */
void lateness_recent(struct lateness *lateness, struct slice topic, int64_t now_ms,
                     struct buckets *into);
extern const struct bucket_bounds lateness_bounds;

/* Writes some of it on a page: call it with *at 0, then again as *at says, until it returns true.
 * Microseconds a call. `shows`: whether the page tells of a topic, then there are no others either;
 * NULL: it tells of all. */
typedef bool lateness_shows(void *ctx, struct slice topic);
bool lateness_emit_some(struct lateness *lateness, struct metric_page *page, uint32_t *at,
                        lateness_shows *shows, void *ctx);
extern const struct metric lateness_metrics[];

#endif
