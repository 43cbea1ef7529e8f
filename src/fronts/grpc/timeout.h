/*
 * timeout: the deadline of a call, from its field grpc-timeout. Pure.
 */
#ifndef TARRY_GRPC_TIMEOUT_H
#define TARRY_GRPC_TIMEOUT_H

#include "base/slice.h"

#include <stdint.h>

#define TIMEOUT_NONE (-1)

/* Reads "1 to 8 digits and a unit", such as 250m. Rounds up to milliseconds, except that 0 stays 0. An empty text is
 * TIMEOUT_NONE. Returns false if it is malformed. */
bool timeout_parse(struct slice text, int64_t *ms);

/* Returns how long a take may wait within the timeout of its call: it ends 10 % of the timeout before the deadline, at
 * least 50 ms and at most 1 s before it, and after `most_ms` at the latest. Without a timeout it is `none_ms`. */
int64_t timeout_wait_ms(int64_t timeout_ms, int64_t none_ms, int64_t most_ms);

#endif
