/*
 * event: what happens to jobs and topics, as reported to subscribers. Pure.
 *
 * There is one event per job, except for purges, redrives of all jobs and deletes: these concern a
 * topic and have a number of jobs. Skipped fires concern a schedule of the topic. Unknown fields are zero or empty: a reader shows the fields that
 * are set.
 */
#ifndef TARRY_JOB_EVENT_H
#define TARRY_JOB_EVENT_H

#include "job/job.h"

enum job_event_kind {
    JOB_EVENT_PUSHED = 1,
    JOB_EVENT_REPLACED,
    JOB_EVENT_DUE, /* it waited and is now ready */
    JOB_EVENT_DELIVERED,
    JOB_EVENT_ACKED,
    JOB_EVENT_NACKED,
    JOB_EVENT_EXTENDED,
    JOB_EVENT_RETURNED, /* the delivery did not reach the consumer, the attempt does not count */
    JOB_EVENT_LEASE_ENDED,
    JOB_EVENT_EXPIRED,
    JOB_EVENT_CANCELLED,
    JOB_EVENT_RESCHEDULED,
    JOB_EVENT_RUN,
    JOB_EVENT_DEAD,
    JOB_EVENT_REDRIVEN,
    JOB_EVENT_PURGED,
    JOB_EVENT_PAUSED,
    JOB_EVENT_RESUMED,
    JOB_EVENT_SETTINGS,
    JOB_EVENT_DELETED,      /* the topic was deleted */
    JOB_EVENT_FIRE_SKIPPED, /* a schedule pushed no job at its time */
    JOB_EVENT_PROGRESS,     /* extended, with progress */
    JOB_EVENT_KINDS_END
};

/* Returns the bit of a kind in a set of kinds. */
static inline uint32_t job_event_bit(enum job_event_kind kind)
{
    return UINT32_C(1) << kind;
}
enum {
    JOB_EVENTS_ALL = (1 << JOB_EVENT_KINDS_END) - 2,
    JOB_EVENT_TOPICS_MAX = 64 /* that a subscriber may name */
};

/* The way in which a job was handed out. */
enum job_way { JOB_WAY_UNKNOWN = 0, JOB_WAY_TAKE, JOB_WAY_CALLBACK, JOB_WAY_BROKER };

struct job_event {
    enum job_event_kind kind;
    enum job_way way; /* delivered */
    uint32_t attempt;
    int64_t at_ms, due_ms, lease_until_ms; /* wall clock; 0: not set */
    uint64_t count; /* purged, redriven (all), deleted: number of jobs; fire_skipped: of fires */
    struct slice topic;
    struct slice id;    /* of the job; fire_skipped: name of the schedule */
    struct slice error; /* nacked, dead; fire_skipped: the reason; progress: its text */
};

/* Returns the name in answers and options: "pushed", "due", …; never changes once released. */
const char *job_event_name(enum job_event_kind kind);
/* Returns the kind of a name; 0: unknown. */
enum job_event_kind job_event_find(struct slice name);
/* Returns the name of a way; NULL: unknown. */
const char *job_way_name(enum job_way way);

#endif
