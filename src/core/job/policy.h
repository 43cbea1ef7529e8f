/*
 * policy: when a failed job is retried, and when it fails finally. Pure.
 */
#ifndef TARRY_JOB_POLICY_H
#define TARRY_JOB_POLICY_H

#include "base/buffer.h"
#include "job/limits.h"

#include <stdint.h>

enum backoff_kind { BACKOFF_FIXED = 1, BACKOFF_EXPONENTIAL, BACKOFF_NONE, BACKOFF_LIST };

enum { BACKOFF_STEPS_MAX = 16 };
#define BACKOFF_STEP_MS_MAX (30LL * 24 * 3600 * 1000) /* of a list: 30 days */

/* The waits between attempts. Zeroed: not set. */
struct backoff {
    enum backoff_kind kind;
    uint32_t step_count; /* list: 1 to BACKOFF_STEPS_MAX; else 0 */
    int64_t
        first_ms;   /* fixed: every wait. exponential: the first wait, doubled each time. else: 0 */
    int64_t max_ms; /* exponential: the longest wait. fixed: equal to first_ms. else: 0 */
    uint32_t steps_ms[BACKOFF_STEPS_MAX]; /* list: a wait each, the last one repeats; the rest 0 */
};
_Static_assert(BACKOFF_STEP_MS_MAX <= UINT32_MAX, "a wait of a list fits into its field");

/* The settings of a push or a topic. Zero means "not set here": the next wider one is used (job,
 * topic, default). */
struct policy {
    int64_t lease_ms;
    int64_t ttl_ms;         /* how long it may stay ready before it expires; no limit by default */
    uint32_t max_attempts;  /* POLICY_ATTEMPTS_NONE: unlimited */
    struct backoff backoff; /* last, so that the waits of a list are at the end */
};

enum {
    POLICY_LEASE_MS = 60 * 1000,
    POLICY_ATTEMPTS = 16,
    POLICY_BACKOFF_FIRST_MS = 1000,
    POLICY_BACKOFF_MAX_MS = 600 * 1000,
    POLICY_JITTER_PERCENT = 20
};
#define POLICY_ATTEMPTS_NONE UINT32_MAX /* as max_attempts: unlimited */

/* Returns `job` with every unset field taken from `topic`, then from the defaults above. */
struct policy policy_resolve(const struct policy *job, const struct policy *topic);

/* Returns whether a job with so many attempts is not retried. */
bool policy_is_used_up(const struct policy *policy, uint32_t attempt);

/* Returns the name of an option whose value is out of its limits, or NULL. */
const char *policy_fault(const struct policy *policy);

/* Returns whether the waits match the kind and are within their limits. */
bool policy_backoff_is_valid(const struct backoff *backoff);

/* Returns the wait after attempt number `attempt` (from 1) has failed, with jitter of +-20 % drawn
 * from `chance` (any 64 random bits). Returns 0 if the kind is BACKOFF_NONE, else at least 1 ms.
 * The jitter never exceeds the limits by more than those 20 %. `backoff` must be set. */
int64_t policy_backoff_ms(const struct backoff *backoff, uint32_t attempt, uint64_t chance);

bool policy_backoff_equal(const struct backoff *a, const struct backoff *b);

/* Parse and append "fixed:10s", "exp:1s..10m", "list:10s,1m,1h" or "none". Parsing returns false and leaves *out
 * unchanged on anything else, on 0, on waits above POLICY_DELAY_MS_MAX (BACKOFF_STEP_MS_MAX in a list), on more than
 * BACKOFF_STEPS_MAX waits and if first > max. */
bool policy_parse_backoff(struct slice text, struct backoff *out);
void policy_emit_backoff(struct buffer *out, const struct backoff *backoff);

/* Parse and write the waits of a list as databases store them: milliseconds, with commas. Parsing sets the kind, or
 * returns false and leaves *out unchanged. Writing returns the text; it is empty if the backoff is not a list. */
enum { BACKOFF_STEPS_BYTES_MAX = BACKOFF_STEPS_MAX * 11 };
bool policy_parse_steps(struct slice text, struct backoff *out);
struct slice policy_write_steps(const struct backoff *backoff, char into[BACKOFF_STEPS_BYTES_MAX]);

#endif
