/* bulk: one change to many jobs of a topic, named by their ids in the body: {"ids":["…"]}. */
#ifndef TARRY_HTTP_BULK_H
#define TARRY_HTTP_BULK_H

#include "http/exchange.h"

/* Does the body name jobs so? Else it may be nothing, or a mistake. */
bool http_bulk_is_named(struct slice body);

/* Dead jobs are sent round again. The call is answered, in this call or later. */
void http_bulk_redrive(struct http_call *call);

#endif
