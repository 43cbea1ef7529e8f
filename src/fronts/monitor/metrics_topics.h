/*
 * metrics_topics: the metrics of topics. The topics with the most jobs have samples of their own,
 * up to a limit; the others are summed up.
 *
 * Each page has one, zeroed except for `shown_max`. Topics are added in any order, then it is
 * ended, then written in short steps. Not thread-safe.
 */
#ifndef TARRY_MONITOR_METRICS_TOPICS_H
#define TARRY_MONITOR_METRICS_TOPICS_H

#include "base/heap.h"
#include "base/metric.h"
#include "queue/queue.h"

struct monitor_shown_topic {
    struct queue_counts counts;
    struct topic_totals totals;
    int64_t oldest_ready_due_ms;
    uint64_t jobs, groups;
    uint64_t held_by[FLOW_HELD_REASONS];
    uint64_t soon; /* jobs that fall due within the next minute, if `has_soon` */
    bool has_soon;
    bool paused;
    uint8_t name_bytes;
    char name[JOB_TOPIC_BYTES_MAX];
};

static inline struct slice monitor_shown_topic_name(const struct monitor_shown_topic *topic)
{
    return slice_make(topic->name, topic->name_bytes);
}

/* Returns whether `one` ranks above `other`: by jobs, then by pushes, then by name. */
static inline bool monitor_shown_topic_is_larger(const struct monitor_shown_topic *one,
                                                 const struct monitor_shown_topic *other)
{
    if (one->jobs != other->jobs)
        return one->jobs > other->jobs;
    if (one->totals.pushed != other->totals.pushed)
        return one->totals.pushed > other->totals.pushed;
    return slice_compare(monitor_shown_topic_name(one), monitor_shown_topic_name(other)) < 0;
}

static inline bool monitor_shown_topic_is_dropped_before(struct monitor_shown_topic *const *one,
                                                         struct monitor_shown_topic *const *other)
{
    return monitor_shown_topic_is_larger(*other, *one);
}
HEAP_DECLARE(monitor_largest_topics, struct monitor_shown_topic *,
             monitor_shown_topic_is_dropped_before, heap_place_unused)

struct monitor_metrics_topics {
    uint32_t shown_max; /* number of topics with samples of their own */
    uint64_t count;
    struct monitor_largest_topics largest; /* heap, smallest at the root; finally by name */
    struct monitor_shown_topic others, *spare;
    bool has_others;
    bool is_whole; /* all existing topics were added */
};

/* Adds a topic. Returns false if out of memory. */
bool monitor_metrics_topics_add(struct monitor_metrics_topics *topics,
                                const struct queue_topic *topic);
/* Ends the adding of topics. If not `is_whole`, no topic is reported, since the rest is unknown. */
void monitor_metrics_topics_end(struct monitor_metrics_topics *topics, bool is_whole);
/* Moves `*at` to the next topic, itself included, that has waiting jobs and no figure of jobs due
 * soon yet. Sets the figure of topics without waiting jobs to 0. Returns false if no such topic is
 * left. */
bool monitor_metrics_topics_next_soon(struct monitor_metrics_topics *topics, size_t *at);
void monitor_metrics_topics_set_soon(struct monitor_metrics_topics *topics, size_t at,
                                     uint64_t soon);
/* Writes up to seven samples from `*at` on, 0 at first. Returns true after the last one. */
bool monitor_metrics_topics_write(const struct monitor_metrics_topics *topics,
                                  struct metric_page *page, uint32_t *at, int64_t now_ms);
void monitor_metrics_topics_fini(struct monitor_metrics_topics *topics);

#endif
