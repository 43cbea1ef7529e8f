/* api_routes: the tables of calls, one per noun. */
#ifndef TARRY_API_ROUTES_H
#define TARRY_API_ROUTES_H

#include "http/route.h"

extern const struct http_route http_push_routes[];
extern const struct http_route http_answers_routes[];
extern const struct http_route http_take_routes[];
extern const struct http_route http_jobs_routes[];
extern const struct http_route http_locate_routes[];
extern const struct http_route http_bulk_routes[];
extern const struct http_route http_endpoints_routes[];
extern const struct http_route http_dead_errors_routes[];
extern const struct http_route http_consumers_routes[];
extern const struct http_route http_topics_routes[];
extern const struct http_route http_dead_routes[];
extern const struct http_route http_system_routes[];
extern const struct http_route http_clock_routes[];
extern const struct http_route http_load_routes[];
extern const struct http_route http_console_routes[];
extern const struct http_route http_events_routes[];

#endif
