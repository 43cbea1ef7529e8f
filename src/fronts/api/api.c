#include "api/api.h"

#include "api/consumers.h"
#include "api/routes.h"
#include "api/state.h"

#include <stdlib.h>

static bool open_front(struct http_front *front)
{
    struct api_front *api = calloc(1, sizeof *api);
    if (!api)
        return false;
    list_init(&api->batches);
    list_init(&api->changes);
    buffer_init(&api->event_text, 64 * 1024);
    front->rooms[HTTP_ROOM_API] = api;
    return true;
}

static void close_front(struct http_front *front)
{
    struct api_front *api = api_front_of(front);
    if (!api)
        return;
    api_batches_end(front);
    api_changes_end(front);
    free(api->pushes);
    free(api->push_batches);
    free(api->answers);
    free(api->ids);
    buffer_fini(&api->event_text);
    free(api);
}

static void free_consumers(struct http_shared *shared)
{
    api_consumers_free(api_consumers_of(shared));
}

bool api_open(struct http_shared *shared)
{
    /* By noun, most frequent first. */
    static const struct http_route *const tables[] = {
        api_push_routes,
        api_batch_routes,
        api_answers_routes,
        api_take_routes,
        api_jobs_routes,
        api_topics_routes,
        api_groups_routes,
        api_dead_routes,
        api_system_routes,
        api_console_routes,
        api_bulk_routes,
        api_events_routes,
        api_load_routes,
        api_delivery_routes,
        api_consumers_routes,
        api_clock_routes,
        api_await_routes,
        api_batches_routes,
        NULL,
    };
    static const struct http_part part = {
        .tables = tables, .open = open_front, .close = close_front, .free = free_consumers};
    shared->rooms[HTTP_ROOM_API] = api_consumers_new();
    http_shared_add_part(shared, &part);
    return shared->rooms[HTTP_ROOM_API] != NULL;
}
