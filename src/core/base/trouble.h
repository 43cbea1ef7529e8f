/*
 * trouble: background work that fails repeatedly while the server keeps serving.
 *
 * Each attempt notes its result. Status, metrics and alerts read since when a kind of work has
 * failed. Several parties may do the same kind of work, such as the shards of a store: each has a
 * number below TROUBLE_PARTIES. One table for the process. Any thread.
 *
 * Failures of single calls have no next attempt that could succeed. Each one counts as a failure
 * that lasts TROUBLE_HOLD_MS.
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
    TROUBLE_INTAKE, /* 0, 2: the connection of a kind; 1, 3: the queue accepts no messages */
    TROUBLE_TRACES,
    TROUBLE_SCHEDULES,       /* fires that were refused, schedules that wait */
    TROUBLE_DATABASE_UPKEEP, /* of a SQL store: one party for each operation of the server */
    TROUBLE_DATABASE_CALLS,  /* calls that the database refused */
    TROUBLE_DATABASE_ROWS,   /* rows that break the rules of a push */
    TROUBLES
};
enum { TROUBLE_PARTIES = 64, TROUBLE_HOLD_MS = 60 * 1000 };

/* Notes the result of an attempt. */
void trouble_note(enum trouble trouble, uint32_t party, bool has_failed);

/* Notes the failure of a single call. */
void trouble_note_call(enum trouble trouble, uint32_t party);

/* Returns for how long every attempt of the party has failed; 0 if the latest one succeeded. */
int64_t trouble_party_lasts_ms(enum trouble trouble, uint32_t party);
/* Returns the longest such time of all parties. */
int64_t trouble_lasts_ms(enum trouble trouble);

/* Returns the name of the kind in metrics: "checkpoint", "issuer_keys", … */
const char *trouble_name(enum trouble trouble);

#endif
