/* clock: the state of a server's test clock as JSON. The calls that move the clock are in
 * clock.c. */
#ifndef TARRY_API_CLOCK_H
#define TARRY_API_CLOCK_H

#include "base/buffer.h"
#include "http/front.h"

/* Writes {"now":…,"start":…,"auto":…}. */
void api_clock_write(struct buffer *out, const struct http_clock_hooks *hooks);

#endif
