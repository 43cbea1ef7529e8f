/* api_routes: the tables of calls, one per noun. */
#ifndef TARRY_API_ROUTES_H
#define TARRY_API_ROUTES_H

#include "http/route.h"

struct http_front;

extern const struct http_route api_push_routes[];
extern const struct http_route api_batch_routes[];
extern const struct http_route api_batches_routes[];
extern const struct http_route api_answers_routes[];
extern const struct http_route api_take_routes[];
extern const struct http_route api_jobs_routes[];
extern const struct http_route api_await_routes[];
extern const struct http_route api_bulk_routes[];
extern const struct http_route api_delivery_routes[];
extern const struct http_route api_consumers_routes[];
extern const struct http_route api_topics_routes[];
extern const struct http_route api_groups_routes[];
extern const struct http_route api_dead_routes[];
extern const struct http_route api_system_routes[];
extern const struct http_route api_clock_routes[];
extern const struct http_route api_load_routes[];
extern const struct http_route api_console_routes[];
extern const struct http_route api_events_routes[];

/* Drops the pushes of many jobs in progress. For an ending front. */
void api_batches_end(struct http_front *front);
/* Frees the changes whose next group waits for its place in an iteration, when the front closes. */
void api_changes_end(struct http_front *front);

#endif
