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

/* Reads the numbers of the put. Returns false if the job was not put by this protocol. */
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

/* ---- numbers from attempts ---- */

static const char release_format[] = "released, priority %" SCNu32 ", delay %" SCNu32 " s";
static const char bury_format[] = "buried, priority %" SCNu32;

struct slice beanstalk_release_reason(uint32_t priority, uint32_t delay_s,
                                      char out[BEANSTALK_REASON_BYTES])
{
    int len = snprintf(out, BEANSTALK_REASON_BYTES, release_format, priority, delay_s);
    return slice_make(out, (size_t)len);
}

struct slice beanstalk_bury_reason(uint32_t priority, char out[BEANSTALK_REASON_BYTES])
{
    int len = snprintf(out, BEANSTALK_REASON_BYTES, bury_format, priority);
    return slice_make(out, (size_t)len);
}

/* Counts an attempt and applies the numbers that its end gave to the job. */
static void note_attempt(struct beanstalk_job_view *view, const struct job_attempt *attempt)
{
    char text[BEANSTALK_REASON_BYTES];
    size_t len = attempt->error.len < sizeof text ? attempt->error.len : sizeof text - 1;
    if (len)
        memcpy(text, attempt->error.at, len);
    text[len] = '\0';
    if (attempt->outcome == JOB_OUTCOME_LEASE_ENDED)
        view->timeouts++;
    else if (sscanf(text, release_format, &view->priority, &view->delay_s) == 2)
        view->releases++;
    else if (sscanf(text, bury_format, &view->priority) == 1)
        view->buries++;
}

static void note_attempts(struct beanstalk_job_view *view, const struct job *job)
{
    bool is_reserved = job->state == JOB_LEASED;
    struct job_attempt attempt;
    uint32_t count = 0, before = 0;
    size_t at = 0;
    while (job_history_next(job->history, &at, &attempt)) {
        view->kicks += attempt.attempt <= before; /* a kick restarts the attempt count */
        before = attempt.attempt;
        note_attempt(view, &attempt);
        count++;
    }
    view->kicks += is_reserved ? job->attempt <= before : job->attempt < before;
    view->reserves = count < JOB_HISTORY_MAX ? count + is_reserved : job->attempt;
}

/* ---- the job ---- */

enum { CLOCKS_APART_MS = 50 };

/* Returns the remaining whole seconds; a second that has begun does not count. `whole_s` is the
 * full duration. A difference between two clocks may exceed it slightly. */
static int64_t seconds_left(int64_t until_ms, int64_t now_ms, uint32_t whole_s)
{
    int64_t left_ms = until_ms - now_ms, whole_ms = (int64_t)whole_s * 1000;
    if (left_ms > whole_ms && left_ms <= whole_ms + CLOCKS_APART_MS)
        left_ms = whole_ms;
    return left_ms > 0 ? (left_ms - 1) / 1000 : 0;
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
    int64_t lease_ms = job->policy.lease_ms ? job->policy.lease_ms : POLICY_LEASE_MS;
    struct beanstalk_job_view view = {.number = beanstalk_number_of(front, job->topic, job->id),
                                      .tube = job->topic,
                                      .state = states[job->state],
                                      .ttr_s = (uint32_t)(lease_ms / 1000)};
    (void)read_meta(job->meta, &view, &put_ms);
    note_attempts(&view, job);
    /* If the priority was changed otherwise, only its 16 bits are known. */
    if (beanstalk_priority_pack(view.priority) != job->priority)
        view.priority = beanstalk_priority_unpack(job->priority);
    view.age_s = (now_ms - put_ms) / 1000;
    view.left_s = job->state == JOB_DELAYED  ? seconds_left(job->due_ms, now_ms, view.delay_s)
                  : job->state == JOB_LEASED ? seconds_left(job->lease_until_ms, now_ms, view.ttr_s)
                                             : 0;
    return view;
}

void beanstalk_subject_set(struct beanstalk_subject *subject, struct beanstalk_front *front,
                           const struct job *job, uint64_t number)
{
    subject->is_there = true;
    subject->state = job->state;
    subject->topic_bytes = (uint8_t)job->topic.len;
    memcpy(subject->topic, job->topic.at, job->topic.len);
    subject->id_bytes = (uint8_t)job->id.len;
    memcpy(subject->id, job->id.at, job->id.len);
    subject->view = beanstalk_job_view_of(front, job);
    subject->view.tube = beanstalk_subject_topic(subject);
    if (number)
        subject->view.number = number;
}
