/*
 * job_view: what a client is told of a job, and what a put keeps with it so that it can be told.
 *
 * The queue keeps 16 bits of a priority, and no delay once it is over. So a put leaves its four numbers in
 * the job's meta, and a release or a bury its own in what the attempt ended with. One thread.
 */
#ifndef TARRY_BEANSTALK_JOB_VIEW_H
#define TARRY_BEANSTALK_JOB_VIEW_H

#include "beanstalk/state.h"

struct beanstalk_job_view {
    uint64_t number;
    struct slice tube;
    const char *state;
    uint32_t priority, delay_s, ttr_s;
    /* As far back as the queue remembers attempts. Kicks are those of buried jobs. */
    uint32_t reserves, timeouts, releases, buries, kicks;
    int64_t age_s, left_s;
};

/* Good as long as the job's texts. */
struct beanstalk_job_view beanstalk_job_view_of(struct beanstalk_front *front,
                                                const struct job *job);

/* A job that a command goes on with, by its topic and id. */
struct beanstalk_subject {
    bool is_there;
    enum job_state state;
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    uint8_t topic_bytes, id_bytes;
    struct beanstalk_job_view view;
};

/* `number`: what the client calls it by; 0: by its own. */
void beanstalk_subject_set(struct beanstalk_subject *subject, struct beanstalk_front *front,
                           const struct job *job, uint64_t number);

static inline struct slice beanstalk_subject_topic(const struct beanstalk_subject *subject)
{
    return slice_make(subject->topic, subject->topic_bytes);
}

static inline struct slice beanstalk_subject_id(const struct beanstalk_subject *subject)
{
    return slice_make(subject->id, subject->id_bytes);
}

/* Appends to a job's meta with which numbers it was put, at `now_ms` by the wall clock of the queue. */
void beanstalk_put_meta(struct buffer *meta, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
                        int64_t now_ms);

/* What a release, or a bury, gives the queue as the reason for which an attempt ended, in `out`. */
enum { BEANSTALK_REASON_BYTES = 64 };
struct slice beanstalk_release_reason(uint32_t priority, uint32_t delay_s,
                                      char out[BEANSTALK_REASON_BYTES]);
struct slice beanstalk_bury_reason(uint32_t priority, char out[BEANSTALK_REASON_BYTES]);

#endif
