#include "job/policy.h"

#include "base/duration.h"

#include <assert.h>

#define FIXED_PREFIX "fixed:"
#define EXPONENTIAL_PREFIX "exp:"
#define RANGE_MARK ".."
#define NONE "none"

struct policy policy_resolve(const struct policy *job, const struct policy *topic)
{
    struct policy out = {
        .lease_ms = POLICY_LEASE_MS,
        .backoff = {BACKOFF_EXPONENTIAL, POLICY_BACKOFF_FIRST_MS, POLICY_BACKOFF_MAX_MS},
        .max_attempts = POLICY_ATTEMPTS,
    };
    const struct policy *const widest_first[] = {topic, job};

    for (int i = 0; i < 2; i++) {
        const struct policy *set = widest_first[i];

        out.lease_ms = set->lease_ms ? set->lease_ms : out.lease_ms;
        out.ttl_ms = set->ttl_ms ? set->ttl_ms : out.ttl_ms;
        out.backoff = set->backoff.kind ? set->backoff : out.backoff;
        out.max_attempts = set->max_attempts ? set->max_attempts : out.max_attempts;
    }
    return out;
}

bool policy_is_used_up(const struct policy *policy, uint32_t attempt)
{
    return attempt >= policy->max_attempts && policy->max_attempts != POLICY_ATTEMPTS_NONE;
}

const char *policy_fault(const struct policy *policy)
{
    if (!job_limit_holds_or_unset(LIMIT_LEASE_FOR, policy->lease_ms))
        return job_limits[LIMIT_LEASE_FOR].option;
    if (!job_limit_holds_or_unset(LIMIT_TTL, policy->ttl_ms))
        return job_limits[LIMIT_TTL].option;
    if (policy->max_attempts != POLICY_ATTEMPTS_NONE &&
        !job_limit_holds_or_unset(LIMIT_MAX_ATTEMPTS, policy->max_attempts))
        return job_limits[LIMIT_MAX_ATTEMPTS].option;
    if (policy->backoff.kind && !policy_backoff_is_valid(&policy->backoff))
        return "backoff";
    return NULL;
}

/* ---- waits ---- */

bool policy_backoff_is_valid(const struct backoff *backoff)
{
    if (backoff->kind == BACKOFF_NONE)
        return !backoff->first_ms && !backoff->max_ms;
    return (backoff->kind == BACKOFF_FIXED || backoff->kind == BACKOFF_EXPONENTIAL) &&
           backoff->first_ms > 0 && backoff->max_ms >= backoff->first_ms &&
           backoff->max_ms <= POLICY_DELAY_MS_MAX;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the wait before jitter. */
static int64_t plain_wait_ms(const struct backoff *backoff, uint32_t attempt)
{
    uint32_t doublings = backoff->kind == BACKOFF_EXPONENTIAL ? attempt - 1 : 0;

    if (doublings >= 63 || backoff->first_ms > backoff->max_ms >> doublings)
        return backoff->max_ms;
    return backoff->first_ms << doublings;
}

int64_t policy_backoff_ms(const struct backoff *backoff, uint32_t attempt, uint64_t chance)
{
    int64_t wait_ms, spread_ms;
    uint64_t choices;

    if (backoff->kind == BACKOFF_NONE)
        return 0;
    assert(backoff->kind == BACKOFF_FIXED || backoff->kind == BACKOFF_EXPONENTIAL);
    assert(backoff->first_ms > 0 && backoff->max_ms >= backoff->first_ms && attempt >= 1);
    wait_ms = smaller(plain_wait_ms(backoff, attempt), POLICY_DELAY_MS_MAX);
    spread_ms = wait_ms * POLICY_JITTER_PERCENT / 100;
    choices = 2 * (uint64_t)spread_ms + 1;
    return wait_ms - spread_ms + (int64_t)(((unsigned __int128)chance * choices) >> 64);
}

/* ---- text ---- */

static bool take_prefix(struct slice *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (text->len < len || memcmp(text->at, prefix, len) != 0)
        return false;
    *text = slice_make(text->at + len, text->len - len);
    return true;
}

static bool parse_wait(struct slice text, int64_t *ms)
{
    return duration_parse(text, POLICY_DELAY_MS_MAX, ms) && *ms > 0;
}

static bool parse_range(struct slice text, int64_t *first_ms, int64_t *max_ms)
{
    const char *mark = memmem(text.at, text.len, RANGE_MARK, strlen(RANGE_MARK)), *max_at;

    if (!mark)
        return false;
    max_at = mark + strlen(RANGE_MARK);
    return parse_wait(slice_make(text.at, (size_t)(mark - text.at)), first_ms) &&
           parse_wait(slice_make(max_at, (size_t)(text.at + text.len - max_at)), max_ms) &&
           *first_ms <= *max_ms;
}

bool policy_parse_backoff(struct slice text, struct backoff *out)
{
    struct backoff parsed = {0};

    if (take_prefix(&text, FIXED_PREFIX)) {
        parsed.kind = BACKOFF_FIXED;
        if (!parse_wait(text, &parsed.first_ms))
            return false;
        parsed.max_ms = parsed.first_ms;
    } else if (take_prefix(&text, EXPONENTIAL_PREFIX)) {
        parsed.kind = BACKOFF_EXPONENTIAL;
        if (!parse_range(text, &parsed.first_ms, &parsed.max_ms))
            return false;
    } else if (slice_is(text, NONE)) {
        parsed.kind = BACKOFF_NONE;
    } else {
        return false;
    }
    *out = parsed;
    return true;
}

void policy_emit_backoff(struct buffer *out, const struct backoff *backoff)
{
    if (backoff->kind == BACKOFF_NONE) {
        buffer_append_text(out, NONE);
        return;
    }
    assert(backoff->kind == BACKOFF_FIXED || backoff->kind == BACKOFF_EXPONENTIAL);
    if (backoff->kind == BACKOFF_FIXED) {
        buffer_append_text(out, FIXED_PREFIX);
        duration_emit(out, backoff->first_ms);
        return;
    }
    buffer_append_text(out, EXPONENTIAL_PREFIX);
    duration_emit(out, backoff->first_ms);
    buffer_append_text(out, RANGE_MARK);
    duration_emit(out, backoff->max_ms);
}
