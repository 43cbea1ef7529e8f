/* front: what the calls under /v1/schedules need in each front of the HTTP server. */
#ifndef TARRY_CADENCE_FRONT_H
#define TARRY_CADENCE_FRONT_H

#include "cadence/stored.h"
#include "cadence/zones.h"
#include "http/exchange.h"

struct cadence_front {
    struct zones *zones;
    struct list changes; /* in progress */
};

/* Returns the state of a front. */
static inline struct cadence_front *cadence_front_of(const struct http_front *front)
{
    return front->cadence;
}

/* Answers that the schedule does not exist. */
void cadence_answer_no_schedule(struct http_exchange *exchange, struct slice name);
/* Reads the schedule of a reply. Answers the call and returns NULL if that fails, or if the caller may
 * not see it. The caller frees the result with stored_free. */
struct stored *cadence_read_reply(struct http_exchange *exchange, const struct queue_reply *reply);

extern const struct http_route cadence_call_routes[], cadence_view_routes[], cadence_set_routes[];

#endif
