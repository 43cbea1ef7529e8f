/*
 * problem: the kinds of problems that a status reports, each with its code, its limit, its severity,
 * a sentence and the runbook that describes what to do.
 */
#ifndef TARRY_MONITOR_PROBLEM_H
#define TARRY_MONITOR_PROBLEM_H

#include <stdint.h>

#define MONITOR_SECOND_MS INT64_C(1000)
#define MONITOR_MINUTE_MS (60 * MONITOR_SECOND_MS)
#define MONITOR_HOUR_MS (60 * MONITOR_MINUTE_MS)
#define MONITOR_DAY_MS (24 * MONITOR_HOUR_MS)

enum monitor_severity { MONITOR_CRITICAL = 1, MONITOR_WARNING };

/* The kind of a problem's value. */
enum monitor_value_kind {
    MONITOR_VALUE_NONE = 0,
    MONITOR_VALUE_COUNT,
    MONITOR_VALUE_TIME,
    MONITOR_VALUE_BYTES
};

enum monitor_problem {
    MONITOR_STORE_FAILED = 0,
    MONITOR_REDIS_AWAY,
    MONITOR_MOVED,
    MONITOR_FULL,
    MONITOR_FULL_OF,
    MONITOR_MEMORY_SPENT,
    MONITOR_STUCK,
    MONITOR_STUCK_TARGET,
    MONITOR_VERY_LATE,
    MONITOR_CERTIFICATE_ENDED,
    MONITOR_CERTIFICATE_ENDS_NOW,
    MONITOR_CHECKPOINTS_STOPPED,
    MONITOR_LATE,
    MONITOR_SLOW,
    MONITOR_SLOW_TARGET,
    MONITOR_TOPIC_FULL,
    MONITOR_MEMORY,
    MONITOR_DISK,
    MONITOR_PAUSED,
    MONITOR_HELD,
    MONITOR_HELD_GROUPS,
    MONITOR_DEAD,
    MONITOR_CERTIFICATE_ENDS,
    MONITOR_CHECKPOINTS,
    MONITOR_MERGE,
    MONITOR_LOAD,
    MONITOR_TOKENS,
    MONITOR_TOKENS_IN_STORE,
    MONITOR_ISSUER_KEYS,
    MONITOR_CERTIFICATE_FILES,
    MONITOR_CONFIGURATION,
    MONITOR_POLICY,
    MONITOR_AUDIT_FILE,
    MONITOR_AUDIT_FILE_KEPT,
    MONITOR_LOG_FILE,
    MONITOR_INTAKE,
    MONITOR_INTAKE_PAUSED,
    MONITOR_TRACES,
    MONITOR_SCHEDULES,
    MONITOR_DATABASE_UPKEEP,
    MONITOR_DATABASE_CALLS,
    MONITOR_DATABASE_ROWS,
    MONITOR_CLOCK,
    MONITOR_PROBLEMS
};

/* A row of the table, which is ordered by severity. {topic}, {shard}, {operation}, {breaker} and
 * {value} in the sentence are replaced. */
struct monitor_problem_row {
    const char *code, *runbook;
    enum monitor_severity severity;
    enum monitor_value_kind kind;
    int64_t limit; /* problem above it, or below it for an end; 0: none, or `max` applies */
    const char *sentence;
};

extern const struct monitor_problem_row monitor_problems[MONITOR_PROBLEMS];

#endif
