/*
 * limits: the numbers that bound a job and the settings of its topic, in one place. The door of the
 * queue checks every call with them (queue/door.c). A protocol takes the range and the words of an
 * option from the same rows, so that a text is rejected with the sentence of its own row. Pure.
 */
#ifndef TARRY_JOB_LIMITS_H
#define TARRY_JOB_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    JOB_TOPIC_BYTES_MAX = 200,
    JOB_ID_BYTES_MAX = 128,
    JOB_CONTENT_TYPE_BYTES_MAX = 128,
    JOB_META_BYTES_MAX = 4096, /* encoded, all pairs together */
    JOB_META_PAIRS_MAX = 32,
    JOB_CONSUMER_BYTES_MAX = 64,
    JOB_ONCE_BYTES_MAX = JOB_ID_BYTES_MAX,
    JOB_ERROR_BYTES_MAX = 256,         /* the code that sets it truncates longer ones */
    JOB_HISTORY_MAX = 8,               /* attempts kept */
    JOB_HISTORY_ERROR_BYTES_MAX = 100, /* of each; the code that sets it truncates longer ones */
    JOB_HISTORY_BYTES_MAX = 1024,      /* encoded, all together */
    JOB_RESULT_BYTES_MAX = 1 << 20,    /* the most that the server option may allow */
    JOB_RESULT_BYTES = 64 << 10,       /* default of the server option */
    JOB_PROGRESS_BYTES_MAX = 256,
    JOB_BODY_BYTES_MAX = 1 << 20, /* default of the server option */
    JOB_PRIORITY_MAX = 65535,
    JOB_PAST_ATTEMPTS_MAX = 1000 * 1000 * 1000, /* of a job that comes from another queue */
    POLICY_LEASE_MS_MIN = 100,
    POLICY_LEASE_MS_MAX = 24 * 3600 * 1000,
    POLICY_ATTEMPTS_MAX = 10000,
    TOPIC_EXTENSION_BYTES_MAX = 4096,
    JOB_GROUP_BYTES_MAX = 64,
    GROUP_WEIGHT_MAX = 100,
    FLOW_LIMIT_MAX = 1000 * 1000, /* the highest limit and the highest burst */
    FLOW_HOLD_MS_MAX = 24 * 3600 * 1000,
    BATCH_MEMBERS_MAX = 1000 * 1000,     /* of one batch */
    BATCHES_MAX = 100 * 1000,            /* waiting jobs of a store */
    BATCH_DEPTH_MAX = 16,                /* of members that wait for members */
    BATCH_CLOSE_MS = 3600 * 1000,        /* close_within, if it is not given */
    BATCH_WAIT_MS = 7 * 24 * 3600 * 1000 /* wait_at_most, if it is not given */
};
#define POLICY_DELAY_MS_MAX (3653LL * 24 * 3600 * 1000) /* 10 years */
#define JOB_AT_MS_MAX (1LL << 47) /* the latest time that a clock may have plus the longest delay */
#define TOPIC_JOBS_MAX (1ULL << 40)
#define TOPIC_KEEP_JOBS (1000 * 1000ULL)  /* kept finished jobs, if the topic sets no limit */
#define TOPIC_KEEP_BYTES (1ULL << 30)     /* their size, if the topic sets no limit */
#define TOPIC_KEEP_BYTES_MAX (1ULL << 50) /* the highest limit of their size */

enum job_limit_id {
    LIMIT_DELAY = 1,
    LIMIT_AT,
    LIMIT_PRIORITY,
    LIMIT_TTL,
    LIMIT_LEASE_FOR,
    LIMIT_MAX_ATTEMPTS,
    LIMIT_ATTEMPT,
    LIMIT_DEDUP_WINDOW,
    LIMIT_HISTORY,
    LIMIT_MAX_JOBS,
    LIMIT_PAUSE,
    LIMIT_ONCE_FOR,
    LIMIT_KEEP_FINISHED,
    LIMIT_KEEP_FINISHED_MAX,
    LIMIT_KEEP_FINISHED_BYTES,
    LIMIT_LIMIT,
    LIMIT_BURST,
    LIMIT_GROUP_LIMIT,
    LIMIT_GROUP_BURST,
    LIMIT_GROUP_MAX_JOBS,
    LIMIT_WEIGHT,
    LIMIT_HOLD,
    LIMIT_MEMBERS,
    LIMIT_WAIT_AT_MOST,
    LIMIT_CLOSE_WITHIN
};

struct job_limit {
    const char *option; /* name in calls and in rejections */
    int64_t least, most;
    const char *values; /* description of valid values */
};

/* In the header, so that a check of one value costs two comparisons with constants. */
static const struct job_limit job_limits[] = {
    [LIMIT_DELAY] = {"delay", 0, POLICY_DELAY_MS_MAX,
                     "a duration up to 10 years, such as 1500ms, 30s, 2h30m or PT30M"},
    [LIMIT_AT] = {"at", 0, JOB_AT_MS_MAX,
                  "an RFC 3339 time such as 2026-11-20T09:00:00Z, or milliseconds since 1970, from "
                  "1973 on, up to 10 years ahead"},
    [LIMIT_PRIORITY] = {"priority", 0, JOB_PRIORITY_MAX, "a number from 0 (first) to 65535"},
    [LIMIT_TTL] = {"ttl", 1, POLICY_DELAY_MS_MAX, "a duration from 1ms to 10 years"},
    [LIMIT_LEASE_FOR] = {"lease_for", POLICY_LEASE_MS_MIN, POLICY_LEASE_MS_MAX,
                         "a duration from 100ms to 24h"},
    [LIMIT_MAX_ATTEMPTS] = {"max_attempts", 1, POLICY_ATTEMPTS_MAX,
                            "a number from 1 to 10000, or none"},
    [LIMIT_ATTEMPT] = {"attempt", 0, JOB_PAST_ATTEMPTS_MAX, "a number from 0 to 1000000000"},
    [LIMIT_DEDUP_WINDOW] = {"dedup_window", 0, POLICY_DELAY_MS_MAX, "a duration up to 10 years"},
    [LIMIT_HISTORY] = {"history", 0, POLICY_DELAY_MS_MAX, "a duration up to 10 years"},
    [LIMIT_MAX_JOBS] = {"max_jobs", 1, (int64_t)TOPIC_JOBS_MAX, "a number from 1 to 1099511627776"},
    [LIMIT_PAUSE] = {"for", 1, POLICY_DELAY_MS_MAX, "a duration up to 10 years"},
    [LIMIT_ONCE_FOR] = {"once_for", 1, POLICY_DELAY_MS_MAX, "a duration from 1ms to 10 years"},
    [LIMIT_KEEP_FINISHED] = {"keep_finished", 0, POLICY_DELAY_MS_MAX, "a duration up to 10 years"},
    [LIMIT_KEEP_FINISHED_MAX] = {"keep_finished_max", 1, (int64_t)TOPIC_JOBS_MAX,
                                 "a number from 1 to 1099511627776"},
    [LIMIT_KEEP_FINISHED_BYTES] = {"keep_finished_bytes", 1, (int64_t)TOPIC_KEEP_BYTES_MAX,
                                   "a number of bytes from 1 to 1125899906842624"},
    [LIMIT_LIMIT] = {"limit", 1, FLOW_LIMIT_MAX, "a number from 1 to 1000000"},
    [LIMIT_BURST] = {"burst", 1, FLOW_LIMIT_MAX, "a number from 1 to 1000000, next to a rate"},
    [LIMIT_GROUP_LIMIT] = {"group_limit", 1, FLOW_LIMIT_MAX, "a number from 1 to 1000000"},
    [LIMIT_GROUP_BURST] = {"group_burst", 1, FLOW_LIMIT_MAX,
                           "a number from 1 to 1000000, next to a group_rate"},
    [LIMIT_GROUP_MAX_JOBS] = {"group_max_jobs", 1, (int64_t)TOPIC_JOBS_MAX,
                              "a number from 1 to 1099511627776"},
    [LIMIT_WEIGHT] = {"weight", 1, GROUP_WEIGHT_MAX, "a number from 1 to 100"},
    [LIMIT_HOLD] = {"hold", 1, FLOW_HOLD_MS_MAX, "a duration from 1ms to 24h"},
    [LIMIT_MEMBERS] = {"members", 1, BATCH_MEMBERS_MAX, "a number from 1 to 1000000"},
    [LIMIT_WAIT_AT_MOST] = {"wait_at_most", 1, POLICY_DELAY_MS_MAX,
                            "a duration from 1ms to 10 years"},
    [LIMIT_CLOSE_WITHIN] = {"close_within", 1, POLICY_DELAY_MS_MAX,
                            "a duration from 1ms to 10 years"},
};

static inline bool job_limit_holds(enum job_limit_id id, int64_t value)
{
    return value >= job_limits[id].least && value <= job_limits[id].most;
}

/* Returns whether a value is within its limit, or 0, which means "not set". */
static inline bool job_limit_holds_or_unset(enum job_limit_id id, int64_t value)
{
    return value == 0 || job_limit_holds(id, value);
}

#endif
