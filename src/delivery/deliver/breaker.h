/*
 * breaker: a circuit breaker that decides whether to send to an endpoint. It stops sending to a
 * failing endpoint and detects its recovery. Pure: time and randomness are arguments.
 *
 * Closed: all messages pass. The breaker opens after BREAKER_RUN failure reports in a row, or when
 * more than half of the last reports (a moving average) were failures. Open: no message passes
 * until a pause has ended; then one message is sent as a probe. If it succeeds, the breaker closes.
 * Otherwise it stays open for twice as long, from 1 s to 60 s, with a random deviation of up to a
 * fifth so that servers do not probe simultaneously.
 *
 * All zero: closed.
 */
#ifndef TARRY_DELIVER_BREAKER_H
#define TARRY_DELIVER_BREAKER_H

#include "base/random.h"

#include <assert.h>
#include <stdbool.h>

enum {
    BREAKER_RUN = 5,
    BREAKER_SHARE_SEEN = 20, /* reports before the failure share counts */
    BREAKER_PAUSE_MS = 1000,
    BREAKER_PAUSE_MS_MAX = 60 * 1000
};

struct breaker {
    bool is_open, is_probing;
    uint32_t ailing_run; /* failures in a row */
    uint32_t seen;       /* reports since it closed, up to BREAKER_SHARE_SEEN */
    uint32_t share;      /* moving average of failures, 1024 is 100 % */
    int64_t pause_ms;    /* pause after it last opened */
    int64_t wait_until_ms;
};

enum breaker_decision {
    BREAKER_PASS = 1,
    BREAKER_PROBE, /* one message may be sent, as a probe */
    BREAKER_WAIT   /* nothing may be sent before breaker_next_ms */
};

enum {
    BREAKER_SHARE_ALL = 1024,
    BREAKER_SHARE_OPENS = BREAKER_SHARE_ALL / 2,
    BREAKER_SHARE_WEIGHT = 16
};

static inline enum breaker_decision breaker_ask(const struct breaker *breaker, int64_t now_ms)
{
    if (now_ms < breaker->wait_until_ms || breaker->is_probing)
        return BREAKER_WAIT;
    return breaker->is_open ? BREAKER_PROBE : BREAKER_PASS;
}

/* Returns the time to ask again after BREAKER_WAIT; INT64_MAX: when the probe ends. */
static inline int64_t breaker_next_ms(const struct breaker *breaker, int64_t now_ms)
{
    if (now_ms < breaker->wait_until_ms)
        return breaker->wait_until_ms;
    return breaker->is_probing ? INT64_MAX : now_ms;
}

/* Records that the probe was sent. */
static inline void breaker_probe(struct breaker *breaker)
{
    assert(breaker->is_open && !breaker->is_probing);
    breaker->is_probing = true;
}

static inline void breaker_open_for(struct breaker *breaker, int64_t pause_ms, int64_t now_ms,
                                    struct random *random)
{
    int64_t fifth = pause_ms / 5;
    breaker->is_open = true;
    breaker->pause_ms = pause_ms;
    breaker->wait_until_ms =
        now_ms + pause_ms - fifth + (int64_t)random_below(random, (uint64_t)fifth * 2 + 1);
}

static inline bool breaker_report_probe(struct breaker *breaker, bool is_ailing, int64_t now_ms,
                                        struct random *random)
{
    breaker->is_probing = false;
    if (!is_ailing) {
        int64_t rests_until_ms = breaker->wait_until_ms;
        *breaker = (struct breaker){.wait_until_ms = rests_until_ms};
        return true;
    }
    int64_t pause_ms = breaker->pause_ms * 2;
    breaker_open_for(breaker, pause_ms < BREAKER_PAUSE_MS_MAX ? pause_ms : BREAKER_PAUSE_MS_MAX,
                     now_ms, random);
    return false;
}

/* Records the result of a message. Returns true if the breaker opened or closed. */
static inline bool breaker_report(struct breaker *breaker, bool was_probe, bool is_ailing,
                                  int64_t now_ms, struct random *random)
{
    if (was_probe)
        return breaker_report_probe(breaker, is_ailing, now_ms, random);
    if (breaker->is_open)
        return false; /* sent before it opened: no new information */
    breaker->ailing_run = is_ailing ? breaker->ailing_run + 1 : 0;
    breaker->seen += breaker->seen < BREAKER_SHARE_SEEN;
    breaker->share -= breaker->share / BREAKER_SHARE_WEIGHT;
    breaker->share += is_ailing ? BREAKER_SHARE_ALL / BREAKER_SHARE_WEIGHT : 0;
    if (breaker->ailing_run < BREAKER_RUN &&
        (!is_ailing || breaker->seen < BREAKER_SHARE_SEEN || breaker->share <= BREAKER_SHARE_OPENS))
        return false;
    breaker_open_for(breaker, BREAKER_PAUSE_MS, now_ms, random);
    return true;
}

/* Ends a probe without a result: another one may be sent after the shortest pause. */
static inline void breaker_void_probe(struct breaker *breaker, int64_t now_ms)
{
    breaker->is_probing = false;
    if (breaker->wait_until_ms < now_ms + BREAKER_PAUSE_MS)
        breaker->wait_until_ms = now_ms + BREAKER_PAUSE_MS;
}

/* Sends nothing before that time, open or closed, because the endpoint asked to wait. */
static inline void breaker_rest(struct breaker *breaker, int64_t until_ms)
{
    if (breaker->wait_until_ms < until_ms)
        breaker->wait_until_ms = until_ms;
}

#endif
