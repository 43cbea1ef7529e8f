/* snapshot: a sample as JSON, as one caller sees it: all of it, or one topic. Pure. */
#ifndef TARRY_MONITOR_SNAPSHOT_H
#define TARRY_MONITOR_SNAPSHOT_H

#include "monitor/status.h"

enum { MONITOR_SNAPSHOT_TOPICS_MAX = 50 };

/* The content of a snapshot in addition to the topics. */
struct monitor_snapshot_input {
    struct monitor_status_input status;
    struct http_shared *shared; /* for the lateness of its topics */
    uint64_t waiting_takes, connections;
};

/* Writes the whole snapshot, with the busiest topics, then those with the most jobs. */
void monitor_snapshot_write(struct buffer *out, const struct monitor_snapshot_input *input);

/* Writes one topic: its figures from the sample, its counts and settings from `shown`. `shown`
 * NULL: the topic does not exist. */
void monitor_snapshot_topic_write(struct buffer *out, const struct monitor_snapshot_input *input,
                                  struct slice name, const struct queue_topic *shown);

void monitor_history_write(struct buffer *out, const struct monitor_history_point *points,
                           size_t count);

#endif
