/*
 * job_view: the data of a job that the protocol shows, and what a put stores with the job to make
 * that possible.
 *
 * The queue stores 16 bits of a priority and drops a delay once it has passed. So a put stores its
 * four numbers in the job's meta. A release or a bury stores its numbers in the error of the
 * attempt. One thread.
 */
#ifndef TARRY_BEANSTALK_JOB_VIEW_H
#define TARRY_BEANSTALK_JOB_VIEW_H

#include "beanstalk/front.h"

#include <stdint.h>

struct beanstalk_job_view {
    uint64_t number;
    struct slice tube;
    const char *state;
    uint32_t priority, delay_s, ttr_s;
    /* Limited to the attempts that the queue remembers. `kicks` counts kicks of buried jobs. */
    uint32_t reserves, timeouts, releases, buries, kicks;
    int64_t age_s, left_s;
};

/* Returns the view of a job. Valid as long as the job's texts. */
struct beanstalk_job_view beanstalk_job_view_of(struct beanstalk_front *front,
                                                const struct job *job);

/* The job on which a command operates, by its topic and id. */
struct beanstalk_subject {
    bool is_there;
    enum job_state state;
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    uint8_t topic_bytes, id_bytes;
    struct beanstalk_job_view view;
};

/* Appends the numbers of a put to the job's meta. `now_ms` is the queue's wall clock. */
void beanstalk_put_meta(struct buffer *meta, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
                        int64_t now_ms);

/* Formats the error that a release or a bury passes to the queue for the attempt, in `out`. */
enum { BEANSTALK_REASON_BYTES = 64 };
struct slice beanstalk_release_reason(uint32_t priority, uint32_t delay_s,
                                      char out[BEANSTALK_REASON_BYTES]);
struct slice beanstalk_bury_reason(uint32_t priority, char out[BEANSTALK_REASON_BYTES]);

/* ---- numbers by which clients address jobs ----
 *
 * An id that is a decimal number is its own number. A job with another id, pushed over HTTP, gets a
 * number from 2^52 upwards. This server remembers the last few thousand of these. Used on the
 * front's thread only. */

/* Returns false if out of memory. */
bool beanstalk_aliases_init(struct beanstalk_front *front);
void beanstalk_aliases_fini(struct beanstalk_front *front);

/* Returns the id of a number, formatted into `room`. Sets *topic only if the number is an alias.
 * Returns an empty slice if the alias is unknown. */
struct slice beanstalk_id_of(const struct beanstalk_front *front, uint64_t number,
                             char room[JOB_ID_BYTES_MAX], struct slice *topic);

/* ---- priorities: a client's 32 bits as a job's 16 bits, in the same order ----
 *
 * Priorities up to 4095 are exact. Larger ones keep 11 bits of mantissa and 5 bits of exponent.
 * Jobs whose priorities map to the same value are ordered by due time. Pure. */

uint16_t beanstalk_priority_pack(uint32_t priority);
/* Returns the smallest priority with this packed value. */
uint32_t beanstalk_priority_unpack(uint16_t packed);

#endif
