/* monitor_routes: the tables of calls, one per noun. */
#ifndef TARRY_MONITOR_ROUTES_H
#define TARRY_MONITOR_ROUTES_H

#include "http/route.h"

extern const struct http_route http_server_state_routes[];
extern const struct http_route http_metrics_routes[];
extern const struct http_route http_live_routes[];
extern const struct http_route http_runbooks_routes[];

#endif
