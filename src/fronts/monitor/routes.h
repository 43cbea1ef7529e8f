/* monitor_routes: the tables of calls, one per noun. */
#ifndef TARRY_MONITOR_ROUTES_H
#define TARRY_MONITOR_ROUTES_H

#include "http/route.h"

extern const struct http_route monitor_server_state_routes[];
extern const struct http_route monitor_metrics_routes[];
extern const struct http_route monitor_live_routes[];
extern const struct http_route monitor_runbooks_routes[];
extern const struct http_route monitor_silences_routes[];
extern const struct http_route monitor_day_routes[];

#endif
