#include "deliver/breaker.h"

#include <assert.h>

enum { SHARE_ALL = 1024, SHARE_OPENS = SHARE_ALL / 2, SHARE_WEIGHT = 16 };

enum breaker_verdict breaker_ask(const struct breaker *breaker, int64_t now_ms)
{
    if (now_ms < breaker->wait_until_ms || breaker->is_probing)
        return BREAKER_WAIT;
    return breaker->is_open ? BREAKER_PROBE : BREAKER_PASS;
}

int64_t breaker_next_ms(const struct breaker *breaker, int64_t now_ms)
{
    if (now_ms < breaker->wait_until_ms)
        return breaker->wait_until_ms;
    return breaker->is_probing ? INT64_MAX : now_ms;
}

void breaker_probe(struct breaker *breaker)
{
    assert(breaker->is_open && !breaker->is_probing);
    breaker->is_probing = true;
}

static void open_for(struct breaker *breaker, int64_t pause_ms, int64_t now_ms,
                     struct random *random)
{
    int64_t fifth = pause_ms / 5;
    breaker->is_open = true;
    breaker->pause_ms = pause_ms;
    breaker->wait_until_ms =
        now_ms + pause_ms - fifth + (int64_t)random_below(random, (uint64_t)fifth * 2 + 1);
}

static bool report_probe(struct breaker *breaker, bool is_ailing, int64_t now_ms,
                         struct random *random)
{
    breaker->is_probing = false;
    if (!is_ailing) {
        int64_t rests_until_ms = breaker->wait_until_ms;
        *breaker = (struct breaker){.wait_until_ms = rests_until_ms};
        return true;
    }
    int64_t pause_ms = breaker->pause_ms * 2;
    open_for(breaker, pause_ms < BREAKER_PAUSE_MS_MAX ? pause_ms : BREAKER_PAUSE_MS_MAX, now_ms,
             random);
    return false;
}

bool breaker_report(struct breaker *breaker, bool was_probe, bool is_ailing, int64_t now_ms,
                    struct random *random)
{
    if (was_probe)
        return report_probe(breaker, is_ailing, now_ms, random);
    if (breaker->is_open)
        return false; /* sent before it opened: known by now */
    breaker->ailing_run = is_ailing ? breaker->ailing_run + 1 : 0;
    breaker->seen += breaker->seen < BREAKER_SHARE_SEEN;
    breaker->share -= breaker->share / SHARE_WEIGHT;
    breaker->share += is_ailing ? SHARE_ALL / SHARE_WEIGHT : 0;
    if (breaker->ailing_run < BREAKER_RUN &&
        (!is_ailing || breaker->seen < BREAKER_SHARE_SEEN || breaker->share <= SHARE_OPENS))
        return false;
    open_for(breaker, BREAKER_PAUSE_MS, now_ms, random);
    return true;
}

void breaker_rest(struct breaker *breaker, int64_t until_ms)
{
    if (breaker->wait_until_ms < until_ms)
        breaker->wait_until_ms = until_ms;
}
