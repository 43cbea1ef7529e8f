#include "beanstalk/job_view.h"

#include "beanstalk/alias.h"
#include "beanstalk/priority.h"

#include <inttypes.h>
#include <stdio.h>

enum { META_BYTES = 128 };
#define META_NAME JOB_META_OWN "beanstalk" /* "PRIORITY DELAY TTR WHEN" */

void beanstalk_put_meta(struct buffer *meta, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
                        int64_t now_ms)
{
    char text[META_BYTES];
    int len = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRId64, priority,
                       delay_s, ttr_s, now_ms);
    (void)job_meta_add(meta, slice_of(META_NAME), slice_make(text, (size_t)len));
}

/* False: it was not put by this protocol. */
static bool read_meta(struct slice meta, struct beanstalk_job_view *out, int64_t *put_ms)
{
    struct slice name, value;
    size_t at = 0;
    char text[META_BYTES];
    while (job_meta_next(meta, &at, &name, &value))
        if (slice_is(name, META_NAME) && value.len < sizeof text) {
            memcpy(text, value.at, value.len);
            text[value.len] = '\0';
            return sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNd64, &out->priority,
                          &out->delay_s, &out->ttr_s, put_ms) == 4;
        }
    return false;
}

static uint32_t seconds_of(int64_t ms)
{
    return ms > 0 ? (uint32_t)(ms / 1000) : 0;
}

struct beanstalk_job_view beanstalk_job_view_of(struct beanstalk_front *front,
                                                const struct job *job)
{
    static const char *const states[] = {[JOB_DELAYED] = "delayed",
                                         [JOB_READY] = "ready",
                                         [JOB_LEASED] = "reserved",
                                         [JOB_DEAD] = "buried",
                                         [JOB_FINISHED] = "ready"};
    int64_t now_ms = queue_wall_ms(front->options.queue), put_ms = now_ms;
    struct beanstalk_job_view view = {
        .number = beanstalk_number_of(front, job->topic, job->id),
        .tube = job->topic,
        .state = states[job->state],
        .priority = beanstalk_priority_unpack(job->priority),
        .ttr_s = seconds_of(job->policy.lease_ms ? job->policy.lease_ms : POLICY_LEASE_MS),
        .reserves = job->attempt};
    struct beanstalk_job_view put = view;
    if (read_meta(job->meta, &put, &put_ms)) {
        /* A later priority is known by its 16 bits alone. */
        if (beanstalk_priority_pack(put.priority) == job->priority)
            view.priority = put.priority;
        view.delay_s = put.delay_s;
        view.ttr_s = put.ttr_s;
    }
    view.age_s = (now_ms - put_ms) / 1000;
    view.left_s = job->state == JOB_DELAYED  ? seconds_of(job->due_ms - now_ms)
                  : job->state == JOB_LEASED ? seconds_of(job->lease_until_ms - now_ms)
                                             : 0;
    return view;
}

void beanstalk_named_set(struct beanstalk_named *named, struct beanstalk_front *front,
                         const struct job *job, uint64_t number)
{
    named->is_there = true;
    named->state = job->state;
    named->topic_bytes = (uint8_t)job->topic.len;
    memcpy(named->topic, job->topic.at, job->topic.len);
    named->id_bytes = (uint8_t)job->id.len;
    memcpy(named->id, job->id.at, job->id.len);
    named->view = beanstalk_job_view_of(front, job);
    named->view.tube = beanstalk_named_topic(named);
    if (number)
        named->view.number = number;
}
