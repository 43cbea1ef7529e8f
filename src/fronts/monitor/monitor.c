#include "monitor/monitor.h"

#include "monitor/day.h"
#include "monitor/live.h"
#include "monitor/metrics.h"
#include "monitor/routes.h"
#include "monitor/sampler.h"
#include "monitor/silences.h"
#include "monitor/state.h"

#include <stdlib.h>

static bool open_front(struct http_front *front)
{
    struct monitor_front *monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return false;
    list_init(&monitor->scrapes);
    front->rooms[HTTP_ROOM_MONITOR] = monitor;
    monitor->live = monitor_live_new(front);
    return monitor->live != NULL;
}

static void look(struct http_front *front)
{
    struct monitor_sampler *sampler = monitor_sampler_of(front->shared);
    if (sampler)
        monitor_sampler_look(sampler, front);
}

static void close_front(struct http_front *front)
{
    struct monitor_front *monitor = monitor_front_of(front);
    if (!monitor)
        return;
    monitor_metrics_end(front);
    monitor_live_free(monitor->live);
    free(monitor);
}

static void free_all(struct http_shared *shared)
{
    monitor_sampler_free(monitor_sampler_of(shared));
    monitor_day_free(monitor_day_of(shared));
    monitor_silences_free(monitor_silences_of(shared));
    free(shared->rooms[HTTP_ROOM_MONITOR]);
}

void monitor_open(struct http_shared *shared)
{
    static const struct http_route *const tables[] = {
        monitor_metrics_routes,
        monitor_runbooks_routes,
        monitor_server_state_routes,
        monitor_live_routes,
        monitor_silences_routes,
        monitor_day_routes,
        NULL,
    };
    static const struct http_part part = {.tables = tables,
                                          .open = open_front,
                                          .iteration_end = look,
                                          .close = close_front,
                                          .free = free_all};
    http_shared_add_part(shared, &part);
}

bool monitor_look(struct http_shared *shared, struct reactor *reactor, struct queue *queue,
                  const char *directory)
{
    struct monitor_shared *monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return false;
    shared->rooms[HTTP_ROOM_MONITOR] = monitor;
    monitor->silences = monitor_silences_new(directory);
    monitor->day = monitor_day_new(shared, directory, MONITOR_DAY_BYTES_MAX);
    if (monitor->day)
        monitor->sampler = monitor_sampler_new(shared, reactor, queue, monitor->day);
    return monitor->silences && monitor->sampler;
}
