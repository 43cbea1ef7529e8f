#include "api/api.h"

#include "api/consumers.h"
#include "api/routes.h"
#include "http/state.h"

static void free_consumers(struct http_shared *shared)
{
    api_consumers_free(shared->consumers);
}

bool api_open(struct http_shared *shared)
{
    /* By noun, most frequent first. */
    static const struct http_route *const tables[] = {
        api_push_routes,      api_batch_routes,     api_answers_routes,
        api_take_routes,      api_jobs_routes,      api_topics_routes,
        api_groups_routes,    api_dead_routes,      api_system_routes,
        api_console_routes,   api_bulk_routes,      api_events_routes,
        api_load_routes,      api_endpoints_routes, api_dead_errors_routes,
        api_consumers_routes, api_clock_routes,     api_locate_routes,
        api_await_routes,     api_batches_routes,   NULL,
    };
    static const struct http_part part = {
        .tables = tables, .close = api_batches_end, .free = free_consumers};
    shared->consumers = api_consumers_new();
    http_shared_add_part(shared, &part);
    return shared->consumers != NULL;
}
