#include "monitor/problem.h"

const struct monitor_problem_row monitor_problems[] = {
    [MONITOR_STORE_FAILED] = {"store_failed", "store", MONITOR_CRITICAL, MONITOR_VALUE_NONE, 0,
                              "the store has failed: jobs are neither accepted nor delivered"},
    [MONITOR_REDIS_AWAY] = {"redis_away", "redis-away", MONITOR_CRITICAL, MONITOR_VALUE_NONE, 0,
                            "Redis cannot be reached: jobs are neither accepted nor delivered"},
    [MONITOR_MOVED] = {"store_failed", "store", MONITOR_CRITICAL, MONITOR_VALUE_NONE, 0,
                       "the data directory was moved: changes are rejected"},
    [MONITOR_FULL] = {"full", "full", MONITOR_CRITICAL, MONITOR_VALUE_NONE, 0,
                      "the store is full: pushes are rejected"},
    [MONITOR_FULL_OF] = {"full", "full", MONITOR_CRITICAL, MONITOR_VALUE_COUNT, 0,
                         "the store is full: pushes are rejected; '{topic}' has most of the jobs, "
                         "{value}"},
    [MONITOR_MEMORY_SPENT] = {"memory", "full", MONITOR_CRITICAL, MONITOR_VALUE_BYTES, 0,
                              "memory is used up, {value}: pushes are rejected"},
    [MONITOR_STUCK] =
        {"stuck", "stuck", MONITOR_CRITICAL, MONITOR_VALUE_TIME, MONITOR_MINUTE_MS,
         "no worker takes the ready jobs of '{topic}': the oldest was due {value} ago"},
    [MONITOR_STUCK_TARGET] =
        {"stuck", "stuck", MONITOR_CRITICAL, MONITOR_VALUE_TIME, MONITOR_MINUTE_MS,
         "the ready jobs of '{topic}' do not reach its target{breaker}: the oldest was due {value} "
         "ago"},
    [MONITOR_VERY_LATE] = {"late", "late", MONITOR_CRITICAL, MONITOR_VALUE_TIME, MONITOR_MINUTE_MS,
                           "deliveries are {value} late (99th percentile)"},
    [MONITOR_CERTIFICATE_ENDED] = {"certificate", "certificate", MONITOR_CRITICAL,
                                   MONITOR_VALUE_TIME, 0, "the certificate expired {value} ago"},
    [MONITOR_CERTIFICATE_ENDS_NOW] = {"certificate", "certificate", MONITOR_CRITICAL,
                                      MONITOR_VALUE_TIME, MONITOR_DAY_MS,
                                      "the certificate expires in {value}"},
    [MONITOR_CHECKPOINTS_STOPPED] =
        {"checkpoint", "background", MONITOR_CRITICAL, MONITOR_VALUE_TIME, 10 * MONITOR_MINUTE_MS,
         "checkpoints of shard {shard} have failed for {value}: the log grows until the disk is "
         "full"},
    [MONITOR_LATE] = {"late", "late", MONITOR_WARNING, MONITOR_VALUE_TIME, MONITOR_SECOND_MS,
                      "deliveries are {value} late (99th percentile)"},
    [MONITOR_SLOW] =
        {"late", "late", MONITOR_WARNING, MONITOR_VALUE_TIME, 10 * MONITOR_SECOND_MS,
         "'{topic}' has too few workers, or none: its oldest ready job was due {value} ago"},
    [MONITOR_SLOW_TARGET] =
        {"late", "late", MONITOR_WARNING, MONITOR_VALUE_TIME, 10 * MONITOR_SECOND_MS,
         "the target of '{topic}' is too slow or fails{breaker}: its oldest ready job was "
         "due {value} ago"},
    [MONITOR_TOPIC_FULL] = {"full", "full", MONITOR_WARNING, MONITOR_VALUE_COUNT, 0,
                            "'{topic}' is full with {value}: pushes to it are rejected"},
    [MONITOR_MEMORY] = {"memory", "full", MONITOR_WARNING, MONITOR_VALUE_BYTES, 0,
                        "memory is almost used up, {value}"},
    [MONITOR_DISK] =
        {"disk", "full", MONITOR_WARNING, MONITOR_VALUE_TIME, 4 * MONITOR_HOUR_MS,
         "the disk will be full in {value} if it continues to grow at its present rate"},
    [MONITOR_PAUSED] = {"stuck", "stuck", MONITOR_WARNING, MONITOR_VALUE_TIME, MONITOR_HOUR_MS,
                        "'{topic}' has ready jobs and has been paused for {value}"},
    [MONITOR_HELD] = {"held", "held", MONITOR_WARNING, MONITOR_VALUE_TIME, 10 * MONITOR_MINUTE_MS,
                      "all ready jobs of '{topic}' are held, and the oldest was due {value} ago"},
    [MONITOR_HELD_GROUPS] = {"held", "held", MONITOR_WARNING, MONITOR_VALUE_TIME, MONITOR_HOUR_MS,
                             "'{topic}' has ready jobs in groups that are paused or on hold, for "
                             "{value}"},
    [MONITOR_DEAD] = {"dead", "dead", MONITOR_WARNING, MONITOR_VALUE_COUNT, 0,
                      "'{topic}' has {value} that died"},
    [MONITOR_CERTIFICATE_ENDS] = {"certificate", "certificate", MONITOR_WARNING, MONITOR_VALUE_TIME,
                                  7 * MONITOR_DAY_MS, "the certificate expires in {value}"},
    [MONITOR_CHECKPOINTS] = {"checkpoint", "background", MONITOR_WARNING, MONITOR_VALUE_TIME,
                             10 * MONITOR_SECOND_MS,
                             "checkpoints of shard {shard} have failed for {value}: the log grows"},
    [MONITOR_MERGE] = {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME,
                       10 * MONITOR_SECOND_MS,
                       "tables of keys of shard {shard} have not been merged for {value}: lookups "
                       "become slower"},
    [MONITOR_LOAD] = {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME,
                      10 * MONITOR_SECOND_MS,
                      "jobs of shard {shard} that are due soon have not been loaded for {value}: "
                      "memory is short"},
    [MONITOR_TOKENS] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the tokens have been unreadable for {value}: the previous ones stay in force"},
    [MONITOR_TOKENS_IN_STORE] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the tokens in the store have been unreadable for {value}: the previous ones stay in "
         "force"},
    [MONITOR_ISSUER_KEYS] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 10 * MONITOR_SECOND_MS,
         "the keys of the issuer have been unreadable for {value}: the previous "
         "ones stay in force"},
    [MONITOR_CERTIFICATE_FILES] = {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME,
                                   0,
                                   "the certificate files have been unreadable for {value}: the "
                                   "previous certificate stays in force"},
    [MONITOR_CONFIGURATION] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the configuration has been unreadable for {value}: the previous one stays in force"},
    [MONITOR_POLICY] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the policy file has been unreadable for {value}: the previous policy stays in force"},
    [MONITOR_AUDIT_FILE] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the audit file has not been written for {value}: audit events are only in the log"},
    [MONITOR_AUDIT_FILE_KEPT] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the audit file has not been reopened for {value}: events go to the previous file"},
    [MONITOR_LOG_FILE] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the log file has not been reopened for {value}: lines go to the previous file"},
    [MONITOR_INTAKE] = {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME,
                        10 * MONITOR_SECOND_MS,
                        "the intake of messages has had no connection to its broker for {value}"},
    [MONITOR_INTAKE_PAUSED] = {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME,
                               10 * MONITOR_SECOND_MS,
                               "the queue has accepted no message of the intake for {value}"},
    [MONITOR_TRACES] = {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME,
                        10 * MONITOR_SECOND_MS,
                        "spans have not been exported for {value}: they are dropped"},
    [MONITOR_SCHEDULES] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "fires of schedules are refused, or schedules wait, the first one {value} "
         "ago: the log has their names"},
    [MONITOR_DATABASE_UPKEEP] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 10 * MONITOR_SECOND_MS,
         "the database has refused the server's {operation} for {value}: the log has its "
         "messages"},
    [MONITOR_DATABASE_CALLS] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "the database refuses calls, the first one {value} ago: the log has its messages"},
    [MONITOR_DATABASE_ROWS] =
        {"background", "background", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
         "rows in the database break the rules of a push, the first one was read {value} ago: the "
         "log has their ids"},
    [MONITOR_CLOCK] = {"clock", "clock", MONITOR_WARNING, MONITOR_VALUE_TIME, 0,
                       "the clock was changed by {value}"},
};
