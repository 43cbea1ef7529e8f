#include "deliver/rate.h"

#include <assert.h>

static double burst(const struct rate *rate)
{
    double most = rate->per_s * RATE_BURST_MS / 1000;
    return most > 1 ? most : 1;
}

static void fill(struct rate *rate, int64_t now_ms)
{
    if (now_ms > rate->at_ms) {
        rate->tokens += rate->per_s * (double)(now_ms - rate->at_ms) / 1000;
        rate->at_ms = now_ms;
    }
    if (rate->tokens > burst(rate))
        rate->tokens = burst(rate);
}

void rate_set(struct rate *rate, double per_s, int64_t now_ms)
{
    assert(per_s >= 0);
    if (rate->per_s > 0)
        fill(rate, now_ms);
    else
        *rate = (struct rate){.tokens = 1, .at_ms = now_ms};
    rate->per_s = per_s;
}

uint32_t rate_free(struct rate *rate, uint32_t want, int64_t now_ms)
{
    if (rate->per_s <= 0)
        return want;
    fill(rate, now_ms);
    return rate->tokens < (double)want ? (uint32_t)rate->tokens : want;
}

void rate_spend(struct rate *rate, uint32_t count)
{
    if (rate->per_s > 0)
        rate->tokens -= count;
}

int64_t rate_next_ms(const struct rate *rate)
{
    if (rate->per_s <= 0 || rate->tokens >= 1)
        return rate->at_ms;
    double wait_ms = (1 - rate->tokens) / rate->per_s * 1000;
    return rate->at_ms + (wait_ms < 1e15 ? (int64_t)wait_ms + 1 : (int64_t)1e15);
}
