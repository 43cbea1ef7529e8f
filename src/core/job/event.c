#include "job/event.h"

static const char *const names[JOB_EVENT_KINDS_END] = {
    [JOB_EVENT_PUSHED] = "pushed",
    [JOB_EVENT_REPLACED] = "replaced",
    [JOB_EVENT_DUE] = "due",
    [JOB_EVENT_DELIVERED] = "delivered",
    [JOB_EVENT_ACKED] = "acked",
    [JOB_EVENT_NACKED] = "nacked",
    [JOB_EVENT_EXTENDED] = "extended",
    [JOB_EVENT_RETURNED] = "returned",
    [JOB_EVENT_LEASE_ENDED] = "lease_ended",
    [JOB_EVENT_EXPIRED] = "expired",
    [JOB_EVENT_CANCELLED] = "cancelled",
    [JOB_EVENT_RESCHEDULED] = "rescheduled",
    [JOB_EVENT_RUN] = "run",
    [JOB_EVENT_DEAD] = "dead",
    [JOB_EVENT_REDRIVEN] = "redriven",
    [JOB_EVENT_PURGED] = "purged",
    [JOB_EVENT_PAUSED] = "paused",
    [JOB_EVENT_RESUMED] = "resumed",
    [JOB_EVENT_SETTINGS] = "settings",
    [JOB_EVENT_DELETED] = "deleted",
    [JOB_EVENT_FIRE_SKIPPED] = "fire_skipped",
    [JOB_EVENT_PROGRESS] = "progress",
};

const char *job_event_name(enum job_event_kind kind)
{
    return names[kind];
}

enum job_event_kind job_event_find(struct slice name)
{
    for (uint32_t kind = JOB_EVENT_PUSHED; kind < JOB_EVENT_KINDS_END; kind++)
        if (slice_equals(slice_of(names[kind]), name))
            return (enum job_event_kind)kind;
    return 0;
}

const char *job_way_name(enum job_way way)
{
    static const char *const ways[] = {NULL, "take", "callback", "broker"};
    return ways[way];
}
