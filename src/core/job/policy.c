#include "job/policy.h"

#include "base/duration.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define FIXED_PREFIX "fixed:"
#define EXPONENTIAL_PREFIX "exp:"
#define LIST_PREFIX "list:"
#define RANGE_MARK ".."
#define NONE "none"

struct policy policy_resolve(const struct policy *job, const struct policy *topic)
{
    struct policy out = {
        .lease_ms = POLICY_LEASE_MS,
        .backoff = {.kind = BACKOFF_EXPONENTIAL,
                    .first_ms = POLICY_BACKOFF_FIRST_MS,
                    .max_ms = POLICY_BACKOFF_MAX_MS},
        .max_attempts = POLICY_ATTEMPTS,
    };
    const struct policy *const widest_first[] = {topic, job};

    for (int i = 0; i < 2; i++) {
        const struct policy *set = widest_first[i];

        out.lease_ms = set->lease_ms ? set->lease_ms : out.lease_ms;
        out.ttl_ms = set->ttl_ms ? set->ttl_ms : out.ttl_ms;
        if (set->backoff.kind)
            out.backoff = set->backoff;
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

static bool list_is_valid(const struct backoff *backoff)
{
    if (!backoff->step_count || backoff->step_count > BACKOFF_STEPS_MAX || backoff->first_ms ||
        backoff->max_ms)
        return false;
    for (uint32_t i = 0; i < BACKOFF_STEPS_MAX; i++)
        if ((backoff->steps_ms[i] != 0) != (i < backoff->step_count) ||
            backoff->steps_ms[i] > BACKOFF_STEP_MS_MAX)
            return false;
    return true;
}

bool policy_backoff_is_valid(const struct backoff *backoff)
{
    if (backoff->kind == BACKOFF_LIST)
        return list_is_valid(backoff);
    if (backoff->step_count)
        return false;
    if (backoff->kind == BACKOFF_NONE)
        return !backoff->first_ms && !backoff->max_ms;
    return (backoff->kind == BACKOFF_FIXED || backoff->kind == BACKOFF_EXPONENTIAL) &&
           backoff->first_ms > 0 && backoff->max_ms >= backoff->first_ms &&
           backoff->max_ms <= POLICY_DELAY_MS_MAX;
}

bool policy_backoff_equal(const struct backoff *a, const struct backoff *b)
{
    return a->kind == b->kind && a->first_ms == b->first_ms && a->max_ms == b->max_ms &&
           (a->kind != BACKOFF_LIST || (a->step_count == b->step_count &&
                                        !memcmp(a->steps_ms, b->steps_ms, sizeof a->steps_ms)));
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the wait of a list after this attempt; the last wait repeats. */
static int64_t step_ms(const struct backoff *backoff, uint32_t attempt)
{
    assert(backoff->step_count && backoff->step_count <= BACKOFF_STEPS_MAX);
    return backoff->steps_ms[(attempt < backoff->step_count ? attempt : backoff->step_count) - 1];
}

/* Returns the wait before jitter. */
static int64_t plain_wait_ms(const struct backoff *backoff, uint32_t attempt)
{
    if (backoff->kind == BACKOFF_LIST)
        return step_ms(backoff, attempt);
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
    assert(attempt >= 1);
    assert(backoff->kind == BACKOFF_LIST ||
           ((backoff->kind == BACKOFF_FIXED || backoff->kind == BACKOFF_EXPONENTIAL) &&
            backoff->first_ms > 0 && backoff->max_ms >= backoff->first_ms));
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

/* Takes the text before the next comma, or the rest. Returns false if nothing is left; *at is past the end then. */
static bool next_part(struct slice text, size_t *at, struct slice *part)
{
    if (*at > text.len)
        return false;
    const char *from = text.at + *at, *comma = memchr(from, ',', text.len - *at);
    *part = slice_make(from, comma ? (size_t)(comma - from) : text.len - *at);
    *at += part->len + 1;
    return true;
}

static bool add_step(struct backoff *backoff, int64_t ms)
{
    if (ms <= 0 || ms > BACKOFF_STEP_MS_MAX || backoff->step_count == BACKOFF_STEPS_MAX)
        return false;
    backoff->steps_ms[backoff->step_count++] = (uint32_t)ms;
    return true;
}

static bool parse_list(struct slice text, struct backoff *out)
{
    struct slice part;
    size_t at = 0;
    int64_t ms;

    out->kind = BACKOFF_LIST;
    while (next_part(text, &at, &part))
        if (!duration_parse(part, BACKOFF_STEP_MS_MAX, &ms) || !add_step(out, ms))
            return false;
    return true;
}

bool policy_parse_steps(struct slice text, struct backoff *out)
{
    struct backoff parsed = {.kind = BACKOFF_LIST};
    struct slice part;
    size_t at = 0;
    uint64_t ms;

    while (next_part(text, &at, &part))
        if (!text_parse_u64(part, BACKOFF_STEP_MS_MAX, &ms) || !add_step(&parsed, (int64_t)ms))
            return false;
    *out = parsed;
    return true;
}

struct slice policy_write_steps(const struct backoff *backoff, char into[BACKOFF_STEPS_BYTES_MAX])
{
    size_t len = 0;

    if (backoff->kind != BACKOFF_LIST)
        return (struct slice){0};
    assert(list_is_valid(backoff));
    for (uint32_t i = 0; i < backoff->step_count; i++)
        len += (size_t)snprintf(into + len, BACKOFF_STEPS_BYTES_MAX - len, "%s%" PRIu32,
                                i ? "," : "", backoff->steps_ms[i]);
    return slice_make(into, len);
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
    } else if (take_prefix(&text, LIST_PREFIX)) {
        if (!parse_list(text, &parsed))
            return false;
    } else if (slice_is(text, NONE)) {
        parsed.kind = BACKOFF_NONE;
    } else {
        return false;
    }
    *out = parsed;
    return true;
}

static void emit_list(struct buffer *out, const struct backoff *backoff)
{
    buffer_append_text(out, LIST_PREFIX);
    for (uint32_t i = 0; i < backoff->step_count; i++) {
        if (i)
            buffer_append_byte(out, ',');
        duration_emit(out, backoff->steps_ms[i]);
    }
}

void policy_emit_backoff(struct buffer *out, const struct backoff *backoff)
{
    if (backoff->kind == BACKOFF_LIST) {
        emit_list(out, backoff);
        return;
    }
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
