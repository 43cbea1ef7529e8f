/*
 * breaker: may an endpoint be sent to? Stops what goes nowhere, and finds out when it goes again.
 * Pure: time and chance are arguments.
 *
 * Closed: everything passes. It opens after BREAKER_RUN ailing reports in a row, or once more than
 * half of the last reports (a sliding share) were ailing. Open: nothing passes until a pause is
 * over; then one message is the probe. Its end decides: closed, or open for twice as long, from
 * 1 s to 60 s, a fifth more or less by chance, so that servers do not probe in step.
 *
 * Zeroed: closed.
 */
#ifndef TARRY_DELIVER_BREAKER_H
#define TARRY_DELIVER_BREAKER_H

#include "base/random.h"

#include <stdbool.h>

enum {
    BREAKER_RUN = 5,
    BREAKER_SHARE_SEEN = 20, /* reports before the share counts */
    BREAKER_PAUSE_MS = 1000,
    BREAKER_PAUSE_MS_MAX = 60 * 1000
};

struct breaker {
    bool is_open, is_probing;
    uint32_t ailing_run; /* reports in a row */
    uint32_t seen;       /* reports since it closed, up to BREAKER_SHARE_SEEN */
    uint32_t share;      /* of ailing ones lately, 1024 is all */
    int64_t pause_ms;    /* of the last time it opened */
    int64_t wait_until_ms;
};

enum breaker_verdict {
    BREAKER_PASS = 1,
    BREAKER_PROBE, /* one may go, as a probe */
    BREAKER_WAIT   /* none before breaker_next_ms */
};

enum breaker_verdict breaker_ask(const struct breaker *breaker, int64_t now_ms);
/* When to ask again after BREAKER_WAIT; INT64_MAX: when the probe has ended. */
int64_t breaker_next_ms(const struct breaker *breaker, int64_t now_ms);
/* The probe goes. */
void breaker_probe(struct breaker *breaker);
/* A message ended. True: it opened or closed by that. */
bool breaker_report(struct breaker *breaker, bool was_probe, bool is_ailing, int64_t now_ms,
                    struct random *random);
/* The endpoint asked for peace: nothing before then, open or closed. */
void breaker_rest(struct breaker *breaker, int64_t until_ms);

#endif
