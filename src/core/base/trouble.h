/*
 * trouble: background work that fails repeatedly while the server keeps serving.
 *
 * Each attempt notes its result. Status, metrics and alerts read since when a kind of work has
 * failed. Several parties may do the same kind of work, such as the shards of a store: each has a
 * number below TROUBLE_PARTIES. One table for the process. Any thread.
 */
#ifndef TARRY_BASE_TROUBLE_H
#define TARRY_BASE_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

enum trouble {
    TROUBLE_CHECKPOINT = 1,
    TROUBLE_MERGE, /* of tables of keys, and reading their filters */
    TROUBLE_LOAD,  /* of jobs that are due soon */
    TROUBLE_CONFIGURATION,
    TROUBLE_POLICY,
    TROUBLE_CERTIFICATE,
    TROUBLE_TOKENS,
    TROUBLE_ISSUER_KEYS,
    TROUBLE_LOG_FILE,
    TROUBLE_AUDIT_FILE,
    TROUBLE_INTAKE,
    TROUBLE_TRACES,
    TROUBLES
};
enum { TROUBLE_PARTIES = 64 };

/* Notes the result of an attempt. */
void trouble_note(enum trouble trouble, uint32_t party, bool has_failed);

/* Returns for how long every attempt of some party has failed; 0 if the latest ones succeeded. */
int64_t trouble_lasts_ms(enum trouble trouble);

/* Returns the name of the kind in metrics: "checkpoint", "issuer_keys", … */
const char *trouble_name(enum trouble trouble);

#endif
