/* stats: what the protocol tells about jobs, tubes and the server, as YAML. One thread: the front's. */
#ifndef TARRY_BEANSTALK_STATS_H
#define TARRY_BEANSTALK_STATS_H

#include "beanstalk/job_view.h"

void beanstalk_stats_job(struct buffer *out, const struct beanstalk_job_view *job);
/* `topic` NULL: the queue does not know it. `tube` NULL: nobody here uses or watches it. `now_ms` is the
 * queue's wall clock. */
void beanstalk_stats_tube(struct buffer *out, const struct beanstalk_tube *tube, struct slice name,
                          const struct queue_topic *topic, int64_t now_ms);
/* What `stats` sums up over topics. */
struct beanstalk_sum {
    struct queue_counts counts; /* retrying jobs are among the delayed */
    uint64_t total, tubes;      /* tubes: such as no client uses or watches */
};
void beanstalk_sum_add(struct beanstalk_sum *sum, const struct beanstalk_front *front,
                       const struct queue_topic *topic);
void beanstalk_stats(struct buffer *out, struct beanstalk_front *front,
                     const struct beanstalk_sum *sum);
/* The tubes that clients use or watch; then each topic adds one, where it is a tube beside those. */
void beanstalk_list_tubes(struct buffer *out, const struct beanstalk_front *front);
void beanstalk_list_topic(struct buffer *out, const struct beanstalk_front *front,
                          const struct queue_topic *topic);
/* Whether it is one of tarry's own, which no client is shown. */
bool beanstalk_topic_is_own(struct slice name);

#endif
