/*
 * event: what happens to jobs and topics, as it is told to whoever listens. Pure.
 *
 * One event for each job, but for purges, redrives of all and deletes: these are of a topic and say of
 * how many jobs. What is not known is zero or empty: a reader shows what there is.
 */
#ifndef TARRY_JOB_EVENT_H
#define TARRY_JOB_EVENT_H

#include "job/job.h"

enum job_event_kind {
    JOB_EVENT_PUSHED = 1,
    JOB_EVENT_REPLACED,
    JOB_EVENT_DUE, /* it waited and is ready now */
    JOB_EVENT_DELIVERED,
    JOB_EVENT_ACKED,
    JOB_EVENT_NACKED,
    JOB_EVENT_EXTENDED,
    JOB_EVENT_RETURNED, /* the delivery reached nobody, the attempt does not count */
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
    JOB_EVENT_DELETED, /* the topic */
    JOB_EVENT_KINDS_END
};

/* A set of kinds has a bit for each. */
static inline uint32_t job_event_bit(enum job_event_kind kind)
{
    return UINT32_C(1) << kind;
}
enum {
    JOB_EVENTS_ALL = (1 << JOB_EVENT_KINDS_END) - 2,
    JOB_EVENT_TOPICS_MAX = 64 /* that one who listens may name */
};

/* To whom a job was handed. */
enum job_way { JOB_WAY_UNKNOWN = 0, JOB_WAY_TAKE, JOB_WAY_CALLBACK, JOB_WAY_BROKER };

struct job_event {
    enum job_event_kind kind;
    enum job_way way; /* delivered */
    uint32_t attempt;
    int64_t at_ms, due_ms, lease_until_ms; /* wall clock; 0: none */
    uint64_t count;                        /* purged, redriven of all, deleted: jobs */
    struct slice topic, id;
    struct slice error; /* nacked, dead */
};

/* "pushed", "due", …: as they stand in answers and options; never changes once released. */
const char *job_event_name(enum job_event_kind kind);
/* 0: no such kind. */
enum job_event_kind job_event_find(struct slice name);
/* NULL: not known. */
const char *job_way_name(enum job_way way);

#endif
