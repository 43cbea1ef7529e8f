/* groups: checks of the settings of groups, limits and rates against the store, with their answers. */
#ifndef TARRY_API_GROUPS_H
#define TARRY_API_GROUPS_H

#include "http/exchange.h"

/* Returns whether the store can have this flow of a topic, and answers the call if not. */
bool api_flow_check(struct http_exchange *exchange, struct slice topic,
                    const struct topic_flow *flow);

/* Returns the options limit, rate and burst. */
struct flow_limits api_fields_limits(const struct http_fields *fields);

#endif
