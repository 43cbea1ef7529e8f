/*
 * limits: the limits of a caller, from its token or JWT. Plain numbers; 0 means no limit.
 *
 * Counts are decimal, with the suffix K, M or G for thousand, million or thousand million. Rates
 * are a count per second, minute, hour or day: "1000/s", "90/m", "5K/h".
 */
#ifndef TARRY_ACCESS_LIMITS_H
#define TARRY_ACCESS_LIMITS_H

#include "base/buffer.h"

struct access_rate {
    uint64_t count;
    int64_t per_ms;
};

struct access_limits {
    struct access_rate push_rate, request_rate;
    uint64_t jobs_max; /* pending jobs, over all topics of the caller */
    uint64_t waiting_max, connections_max;
};

/* Parses a count from 1 to `max`. */
bool access_count_parse(struct slice text, uint64_t max, uint64_t *out);
bool access_rate_parse(struct slice text, struct access_rate *out);
void access_rate_emit(struct access_rate rate, struct buffer *out);

#endif
