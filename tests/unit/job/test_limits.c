/* The limits of a job's options: one row each, with its range and its words. */
#include "job/limits.h"

#include "base/duration.h"
#include "job/policy.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

static const struct {
    enum job_limit_id id;
    int64_t value;
    bool holds;
    const char *why;
} values[] = {
    {LIMIT_DELAY, 0, true, "no delay"},
    {LIMIT_DELAY, -1, false, "a delay into the past"},
    {LIMIT_DELAY, 3653LL * 86400 * 1000, true, "ten years"},
    {LIMIT_DELAY, 3653LL * 86400 * 1000 + 1, false, "a millisecond more than ten years"},
    {LIMIT_PRIORITY, 0, true, "the first priority"},
    {LIMIT_PRIORITY, 65535, true, "the last priority"},
    {LIMIT_PRIORITY, 65536, false, "a priority with more than 16 bits"},
    {LIMIT_PRIORITY, -1, false, "a negative priority"},
    {LIMIT_TTL, 0, false, "no ttl"},
    {LIMIT_TTL, 1, true, "the shortest ttl"},
    {LIMIT_LEASE_FOR, 99, false, "a lease that is too short"},
    {LIMIT_LEASE_FOR, 100, true, "the shortest lease"},
    {LIMIT_LEASE_FOR, 86400000, true, "a day"},
    {LIMIT_LEASE_FOR, 86400001, false, "more than a day"},
    {LIMIT_MAX_ATTEMPTS, 10000, true, "the most attempts"},
    {LIMIT_MAX_ATTEMPTS, 10001, false, "one more attempt"},
    {LIMIT_MAX_JOBS, 1LL << 40, true, "the most jobs of a topic"},
    {LIMIT_MAX_JOBS, -1, false, "a number of jobs beyond 63 bits"},
    {LIMIT_AT, 1LL << 47, true, "the latest time"},
    {LIMIT_AT, (1LL << 47) + 1, false, "a time after the latest"},
};

CLAIM(a_limit_includes_its_ends)
{
    for (size_t i = 0; i < COUNT_OF(values); i++)
        CASE_HOLDS(values[i].why,
                   job_limit_holds(values[i].id, values[i].value) == values[i].holds);
}

CLAIM(each_limit_has_a_name_a_range_and_words)
{
    for (size_t i = 1; i < COUNT_OF(job_limits); i++) {
        const struct job_limit *limit = &job_limits[i];
        assert_non_null(limit->option);
        CASE_HOLDS(limit->option, limit->least >= 0 && limit->least < limit->most);
        CASE_HOLDS(limit->option, limit->values && strlen(limit->values));
    }
}

/* Returns whether the words contain the number, or the duration of so many milliseconds. */
static bool words_name(const char *words, int64_t value)
{
    char number[24];
    struct buffer duration;
    (void)snprintf(number, sizeof number, "%lld", (long long)value);
    buffer_init(&duration, 64);
    duration_emit(&duration, value);
    buffer_append_byte(&duration, '\0');
    bool names = strstr(words, number) || strstr(words, duration.at) ||
                 (value == POLICY_DELAY_MS_MAX && strstr(words, "10 years")) ||
                 (value == JOB_AT_MS_MAX && strstr(words, "10 years ahead")) ||
                 (value == POLICY_LEASE_MS_MAX && strstr(words, "24h"));
    buffer_fini(&duration);
    return names;
}

CLAIM(the_words_of_a_limit_name_its_greatest_value)
{
    for (size_t i = 1; i < COUNT_OF(job_limits); i++)
        CASE_HOLDS(job_limits[i].option, words_name(job_limits[i].values, job_limits[i].most));
}

static const struct {
    struct policy policy;
    const char *fault, *why;
} policies[] = {
    {{0}, NULL, "nothing is set"},
    {{.lease_ms = 99}, "lease_for", "a lease that is too short"},
    {{.ttl_ms = -1}, "ttl", "a negative ttl"},
    {{.max_attempts = POLICY_ATTEMPTS_NONE}, NULL, "unlimited attempts"},
    {{.max_attempts = 10001}, "max_attempts", "too many attempts"},
    {{.backoff = {.kind = BACKOFF_FIXED, .first_ms = 0, .max_ms = 0}}, "backoff", "a wait of 0"},
};

CLAIM(a_policy_out_of_its_limits_is_rejected_by_the_name_of_the_option)
{
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        const char *fault = policy_fault(&policies[i].policy);
        CASE_HOLDS(policies[i].why,
                   policies[i].fault ? fault && !strcmp(fault, policies[i].fault) : !fault);
    }
}

CLAIMS_MAIN(NULL, NULL)
