/*
 * rate: so many a second and no more: a token bucket. Pure: time is an argument.
 *
 * The bucket holds what falls due in RATE_BURST_MS, at least one: a pause is not made up for.
 * Zeroed: no limit.
 */
#ifndef TARRY_DELIVER_RATE_H
#define TARRY_DELIVER_RATE_H

#include <stdint.h>

enum { RATE_BURST_MS = 50 };

struct rate {
    double per_s; /* 0: no limit */
    double tokens;
    int64_t at_ms; /* when they were counted */
};

/* What was saved up stays, as far as the new bucket holds it. */
void rate_set(struct rate *rate, double per_s, int64_t now_ms);
/* How many of `want` may go now. */
uint32_t rate_free(struct rate *rate, uint32_t want, int64_t now_ms);
/* They went; at most as many as were free. */
void rate_spend(struct rate *rate, uint32_t count);
/* When the next may go. */
int64_t rate_next_ms(const struct rate *rate);

#endif
