#include "base/trouble.h"

#include "base/clock.h"

#include <assert.h>
#include <stdatomic.h>

static const char *const names[TROUBLES] = {
    [TROUBLE_CHECKPOINT] = "checkpoint",
    [TROUBLE_MERGE] = "merge",
    [TROUBLE_LOAD] = "load",
    [TROUBLE_CONFIGURATION] = "configuration",
    [TROUBLE_POLICY] = "policy",
    [TROUBLE_CERTIFICATE] = "certificate",
    [TROUBLE_TOKENS] = "tokens",
    [TROUBLE_ISSUER_KEYS] = "issuer_keys",
    [TROUBLE_LOG_FILE] = "log_file",
    [TROUBLE_AUDIT_FILE] = "audit_file",
    [TROUBLE_INTAKE] = "intake",
    [TROUBLE_TRACES] = "traces",
    [TROUBLE_SCHEDULES] = "schedules",
    [TROUBLE_DATABASE_UPKEEP] = "database_upkeep",
    [TROUBLE_DATABASE_CALLS] = "database_calls",
    [TROUBLE_DATABASE_ROWS] = "database_rows",
};

/* Start of the failures by the inner clock; 0: the last attempt of the party succeeded. */
static _Atomic int64_t since_ms[TROUBLES][TROUBLE_PARTIES];
/* Last failure of a single call by the inner clock; 0: no failure. */
static _Atomic int64_t call_ms[TROUBLES][TROUBLE_PARTIES];

void trouble_note(enum trouble trouble, uint32_t party, bool has_failed)
{
    int64_t none = 0;
    assert(trouble > 0 && trouble < TROUBLES && party < TROUBLE_PARTIES);
    if (has_failed)
        (void)atomic_compare_exchange_strong(&since_ms[trouble][party], &none, clock_inner_ms());
    else
        atomic_store_explicit(&since_ms[trouble][party], 0, memory_order_relaxed);
}

/* Returns whether the last failure of a single call is too old to count. */
static bool is_outlived(enum trouble trouble, uint32_t party, int64_t now_ms)
{
    int64_t last_ms = atomic_load_explicit(&call_ms[trouble][party], memory_order_relaxed);
    return last_ms && now_ms - last_ms > TROUBLE_HOLD_MS;
}

void trouble_note_call(enum trouble trouble, uint32_t party)
{
    int64_t now_ms = clock_inner_ms();
    assert(trouble > 0 && trouble < TROUBLES && party < TROUBLE_PARTIES);
    if (is_outlived(trouble, party, now_ms))
        trouble_note(trouble, party, false);
    atomic_store_explicit(&call_ms[trouble][party], now_ms, memory_order_relaxed);
    trouble_note(trouble, party, true);
}

int64_t trouble_party_lasts_ms(enum trouble trouble, uint32_t party)
{
    int64_t now_ms = clock_inner_ms();
    assert(trouble > 0 && trouble < TROUBLES && party < TROUBLE_PARTIES);
    int64_t at_ms = atomic_load_explicit(&since_ms[trouble][party], memory_order_relaxed);
    if (!at_ms || is_outlived(trouble, party, now_ms))
        return 0;
    return now_ms - at_ms + 1; /* a failure within this millisecond counts */
}

int64_t trouble_lasts_ms(enum trouble trouble)
{
    int64_t longest_ms = 0;
    for (uint32_t party = 0; party < TROUBLE_PARTIES; party++) {
        int64_t lasts_ms = trouble_party_lasts_ms(trouble, party);
        if (lasts_ms > longest_ms)
            longest_ms = lasts_ms;
    }
    return longest_ms;
}

const char *trouble_name(enum trouble trouble)
{
    return trouble > 0 && trouble < TROUBLES ? names[trouble] : "";
}
