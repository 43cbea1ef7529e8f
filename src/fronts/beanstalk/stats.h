/* stats: statistics about jobs, tubes and the server, as YAML. Used on the front's thread only. */
#ifndef TARRY_BEANSTALK_STATS_H
#define TARRY_BEANSTALK_STATS_H

#include "beanstalk/job_view.h"

void beanstalk_stats_job(struct buffer *out, const struct beanstalk_job_view *job);
/* Appends the statistics of a tube. `topic` is NULL if the queue has no such topic. `tube` is NULL
 * if no client of this server uses or watches the tube. `now_ms` is the queue's wall clock. */
void beanstalk_stats_tube(struct buffer *out, const struct beanstalk_tube *tube, struct slice name,
                          const struct queue_topic *topic, int64_t now_ms);
/* Totals over all topics, for `stats`. */
struct beanstalk_sum {
    struct queue_counts counts; /* `delayed` includes retrying jobs */
    uint64_t total, tubes;      /* tubes: only those that no client uses or watches */
};
void beanstalk_sum_add(struct beanstalk_sum *sum, const struct beanstalk_front *front,
                       const struct queue_topic *topic);
void beanstalk_stats(struct buffer *out, struct beanstalk_front *front,
                     const struct beanstalk_sum *sum);
/* Appends the tubes that clients use or watch. Then beanstalk_list_topic appends each topic that is
 * another tube. */
void beanstalk_list_tubes(struct buffer *out, const struct beanstalk_front *front);
void beanstalk_list_topic(struct buffer *out, const struct beanstalk_front *front,
                          const struct queue_topic *topic);
/* Returns true if the topic is internal to tarry. Clients cannot see internal topics. */
bool beanstalk_topic_is_own(struct slice name);

#endif
