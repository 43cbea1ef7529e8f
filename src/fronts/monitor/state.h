/*
 * state: what the monitor keeps in each front of the HTTP server, on its reactor's thread, and for
 * all fronts.
 */
#ifndef TARRY_MONITOR_STATE_H
#define TARRY_MONITOR_STATE_H

#include "base/list.h"
#include "http/state.h"

struct monitor_front {
    struct list scrapes;                /* metrics pages in progress */
    struct monitor_live *live;          /* see live.h */
    struct monitor_sample_box *samples; /* its box for samples */
};

struct monitor_shared {
    struct monitor_day *day;
    struct monitor_sampler *sampler;
    struct monitor_silences *silences;
};

static inline struct monitor_front *monitor_front_of(const struct http_front *front)
{
    return front->rooms[HTTP_ROOM_MONITOR];
}

/* Return NULL before monitor_look: nothing is sampled. */
static inline struct monitor_day *monitor_day_of(const struct http_shared *shared)
{
    const struct monitor_shared *monitor = shared->rooms[HTTP_ROOM_MONITOR];
    return monitor ? monitor->day : NULL;
}
static inline struct monitor_sampler *monitor_sampler_of(const struct http_shared *shared)
{
    const struct monitor_shared *monitor = shared->rooms[HTTP_ROOM_MONITOR];
    return monitor ? monitor->sampler : NULL;
}
static inline struct monitor_silences *monitor_silences_of(const struct http_shared *shared)
{
    const struct monitor_shared *monitor = shared->rooms[HTTP_ROOM_MONITOR];
    return monitor ? monitor->silences : NULL;
}

#endif
