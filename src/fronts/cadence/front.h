/* front: what the calls under /v1/schedules need in each front of the HTTP server. */
#ifndef TARRY_CADENCE_FRONT_H
#define TARRY_CADENCE_FRONT_H

#include "cadence/zones.h"
#include "http/exchange.h"

struct cadence_front {
    struct zones *zones;
    struct list changes; /* in progress */
};

/* Returns the state of a front. */
static inline struct cadence_front *cadence_front_of(const struct http_front *front)
{
    return front->rooms[HTTP_ROOM_CADENCE];
}

extern const struct http_route cadence_call_routes[], cadence_view_routes[], cadence_set_routes[];

#endif
