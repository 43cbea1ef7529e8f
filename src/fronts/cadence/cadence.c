#include "cadence/cadence.h"

#include "cadence/change.h"

#include <stdlib.h>

static const char *zone_directory_of_all = ZONES_DIRECTORY;

static bool open_front(struct http_front *front)
{
    struct cadence_front *cadence = calloc(1, sizeof *cadence);
    if (!cadence)
        return false;
    list_init(&cadence->changes);
    front->rooms[HTTP_ROOM_CADENCE] = cadence;
    cadence->zones = zones_new(zone_directory_of_all);
    return cadence->zones != NULL;
}

static void close_front(struct http_front *front)
{
    struct cadence_front *cadence = cadence_front_of(front);
    if (!cadence)
        return;
    change_end_all(front);
    zones_free(cadence->zones);
    free(cadence);
}

void cadence_open(struct http_shared *shared, const char *zone_directory)
{
    static const struct http_route *const tables[] = {
        cadence_call_routes,
        cadence_view_routes,
        cadence_set_routes,
        NULL,
    };
    static const struct http_part part = {
        .tables = tables, .open = open_front, .close = close_front};
    zone_directory_of_all = zone_directory;
    http_shared_add_part(shared, &part);
}
