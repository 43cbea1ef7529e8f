/* bulk: applies one change to many jobs of a topic, given by their ids in the body:
 * {"ids":["…"]}. */
#ifndef TARRY_API_BULK_H
#define TARRY_API_BULK_H

#include "http/exchange.h"

/* Returns whether the body has the form above. If not, it may be empty or malformed. */
bool api_bulk_is_named(struct slice body);

/* Redrives dead jobs. Answers the call before or after it returns. */
void api_bulk_redrive(struct http_call *call);

#endif
