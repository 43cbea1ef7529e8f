/* snapshot: a sample as JSON, as one caller sees it: all of it, or one topic. Pure. */
#ifndef TARRY_HTTP_SNAPSHOT_H
#define TARRY_HTTP_SNAPSHOT_H

#include "http/status.h"

enum { HTTP_SNAPSHOT_TOPICS_MAX = 50 };

/* What stands in a snapshot beside the topics. */
struct http_snapshot_input {
    struct http_status_input status;
    struct http_shared *shared; /* for how late its topics are */
    uint64_t waiting_takes, connections;
};

/* Everything, with the topics that are busiest, then those with most jobs. */
void http_snapshot_write(struct buffer *out, const struct http_snapshot_input *input);

/* One topic: its figures as they are in the sample, its counts and settings as it was just shown.
 * `shown` NULL: there is no such topic. */
void http_snapshot_topic_write(struct buffer *out, const struct http_snapshot_input *input,
                               struct slice name, const struct queue_topic *shown);

void http_history_write(struct buffer *out, const struct http_history_point *points, size_t count);

#endif
