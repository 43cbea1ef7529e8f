#include "monitor/monitor.h"

#include "http/state.h"
#include "monitor/live.h"
#include "monitor/metrics.h"
#include "monitor/routes.h"
#include "monitor/sampler.h"
#include "monitor/silences.h"

static bool open_front(struct http_front *front)
{
    list_init(&front->scrapes);
    front->live = monitor_live_new(front);
    return front->live != NULL;
}

static void look(struct http_front *front)
{
    if (front->shared->sampler)
        monitor_sampler_look(front->shared->sampler, front);
}

static void close_front(struct http_front *front)
{
    monitor_metrics_end(front);
    monitor_live_free(front->live);
}

static void free_all(struct http_shared *shared)
{
    monitor_sampler_free(shared->sampler);
    monitor_silences_free(shared->silences);
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
    shared->silences = monitor_silences_new(directory);
    shared->sampler = monitor_sampler_new(shared, reactor, queue, directory);
    return shared->silences && shared->sampler;
}
