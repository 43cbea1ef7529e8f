/*
 * rate: limits messages per second with a token bucket. Pure: time is an argument.
 *
 * The bucket holds the tokens of RATE_BURST_MS, at least one, so that a pause is not followed by a
 * large burst. All zero: no limit.
 */
#ifndef TARRY_DELIVER_RATE_H
#define TARRY_DELIVER_RATE_H

#include <assert.h>
#include <stdint.h>

enum { RATE_BURST_MS = 50 };

struct rate {
    double per_s; /* 0: no limit */
    double tokens;
    int64_t at_ms; /* time at which the tokens were counted */
};

static inline double rate_burst(const struct rate *rate)
{
    double most = rate->per_s * RATE_BURST_MS / 1000;
    return most > 1 ? most : 1;
}

static inline void rate_fill(struct rate *rate, int64_t now_ms)
{
    if (now_ms > rate->at_ms) {
        rate->tokens += rate->per_s * (double)(now_ms - rate->at_ms) / 1000;
        rate->at_ms = now_ms;
    }
    if (rate->tokens > rate_burst(rate))
        rate->tokens = rate_burst(rate);
}

/* Sets the rate. Saved tokens are kept up to the new capacity. */
static inline void rate_set(struct rate *rate, double per_s, int64_t now_ms)
{
    assert(per_s >= 0);
    if (rate->per_s > 0)
        rate_fill(rate, now_ms);
    else
        *rate = (struct rate){.tokens = 1, .at_ms = now_ms};
    rate->per_s = per_s;
}

/* Returns how many of `want` may be sent now. */
static inline uint32_t rate_free(struct rate *rate, uint32_t want, int64_t now_ms)
{
    if (rate->per_s <= 0)
        return want;
    rate_fill(rate, now_ms);
    return rate->tokens < (double)want ? (uint32_t)rate->tokens : want;
}

/* Takes tokens for sent messages; at most as many as are available. */
static inline void rate_spend(struct rate *rate, uint32_t count)
{
    if (rate->per_s > 0)
        rate->tokens -= count;
}

/* Returns the time at which the next message may be sent. */
static inline int64_t rate_next_ms(const struct rate *rate)
{
    if (rate->per_s <= 0 || rate->tokens >= 1)
        return rate->at_ms;
    double wait_ms = (1 - rate->tokens) / rate->per_s * 1000;
    return rate->at_ms + (wait_ms < 1e15 ? (int64_t)wait_ms + 1 : (int64_t)1e15);
}

#endif
