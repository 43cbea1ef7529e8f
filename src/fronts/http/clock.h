/* clock: how a server's test clock stands, as JSON; the calls that move it are clock.c's. */
#ifndef TARRY_HTTP_CLOCK_H
#define TARRY_HTTP_CLOCK_H

#include "base/buffer.h"
#include "http/front.h"

/* {"now":…,"start":…,"auto":…} */
void http_clock_write(struct buffer *out, const struct http_clock_hooks *hooks);

#endif
