#include "api/api.h"

#include "api/consumers.h"
#include "api/routes.h"
#include "http/state.h"

static void free_consumers(struct http_shared *shared)
{
    http_consumers_free(shared->consumers);
}

bool api_open(struct http_shared *shared)
{
    /* By noun, most frequent first. */
    static const struct http_route *const tables[] = {
        http_push_routes,
        http_answers_routes,
        http_take_routes,
        http_jobs_routes,
        http_topics_routes,
        http_dead_routes,
        http_system_routes,
        http_console_routes,
        http_bulk_routes,
        http_events_routes,
        http_load_routes,
        http_endpoints_routes,
        http_dead_errors_routes,
        http_consumers_routes,
        http_clock_routes,
        http_locate_routes,
        NULL,
    };
    static const struct http_part part = {.tables = tables, .free = free_consumers};
    shared->consumers = http_consumers_new();
    http_shared_add_part(shared, &part);
    return shared->consumers != NULL;
}
