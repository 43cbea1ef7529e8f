/* The table of all calls, by noun, most frequent first. */
#include "http/route.h"

#include <assert.h>
#include <string.h>

uint32_t http_routes_list(struct http_route routes[HTTP_ROUTES_MAX])
{
    static const struct http_route *const tables[] = {
        http_push_routes,      http_answers_routes,      http_take_routes,
        http_jobs_routes,      http_topics_routes,       http_dead_routes,
        http_system_routes,    http_metrics_routes,      http_console_routes,
        http_runbooks_routes,  http_bulk_routes,         http_events_routes,
        http_load_routes,      http_server_state_routes, http_live_routes,
        http_endpoints_routes, http_dead_errors_routes,  http_consumers_routes,
        http_clock_routes,     http_locate_routes,
    };
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct http_route *row = tables[i]; row->pattern; row++) {
            bool has_topic = strstr(row->pattern, "{topic}") != NULL;
            assert(count < HTTP_ROUTES_MAX - 1);
            assert(row->scope && row->topics && has_topic == (row->topics == HTTP_TOPICS_PATH));
            assert((row->scope == ACCESS_ADMIN) == (row->audit != NULL));
            (void)has_topic;
            routes[count] = *row;
            routes[count++].head_bytes = (uint8_t)strcspn(row->pattern, "{");
        }
    return count;
}
