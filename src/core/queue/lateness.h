/*
 * lateness: how late jobs were delivered, and at which attempt, by topic and by way.
 *
 * One object for a server, shared by all code that delivers jobs; any thread, under its own lock. The number of
 * topics with figures of their own is fixed when it is made; all other topics are summed up. A topic without a
 * delivery for an hour makes room for another one, so the figures of a topic may vanish and start again at 0. No call
 * fails: if memory runs out, a topic is counted with the others.
 *
 * Lateness is the time from due to delivery, of first attempts only, since a retry waits for its backoff. Times are
 * wall clock, in milliseconds.
 */
#ifndef TARRY_QUEUE_LATENESS_H
#define TARRY_QUEUE_LATENESS_H

#include "base/metric.h"
#include "job/event.h"
#include "queue/queue.h"

struct lateness;

/* Creates the figures. `topics_max` 0: all topics are summed up. NULL: out of memory. */
struct lateness *lateness_new(uint32_t topics_max);
void lateness_free(struct lateness *lateness);
/* Returns topics_max: how many topics metrics may distinguish, also those of other rooms. */
uint32_t lateness_topics_max(const struct lateness *lateness);

/* Adds jobs that were delivered now, by a known way. */
void lateness_add(struct lateness *lateness, enum job_way way, const struct queue_job *jobs,
                  size_t count, int64_t now_ms);
/* Adds one such job. */
void lateness_add_job(struct lateness *lateness, enum job_way way, const struct job *job,
                      int64_t now_ms);

/*
 * Adds the first deliveries of the topic in the last minute (50 to 60 s), over all ways, to `into`, which has the
 * bounds lateness_bounds. Read the lateness with buckets_at and the count with buckets_total. An empty name: all
 * topics together. A topic without figures of its own adds nothing. Returns the greatest lateness in ms: the buckets of
 * minutes and hours are wide, so a value read from them may be above it.
 */
uint64_t lateness_recent(struct lateness *lateness, struct slice topic, int64_t now_ms,
                         struct buckets *into);
extern const struct bucket_bounds lateness_bounds;

/* Writes a part of the metrics to a page: call it with *at 0 until it returns true. Takes microseconds a call.
 * `shows` returns whether the page includes a topic; then the sum of the others is omitted. NULL: all topics. */
typedef bool lateness_shows(void *ctx, struct slice topic);
bool lateness_emit_some(struct lateness *lateness, struct metric_page *page, uint32_t *at,
                        lateness_shows *shows, void *ctx);
extern const struct metric lateness_metrics[];

#endif
