/* When a failed job tries again. */
#include "job/policy.h"

#include "unit/claim.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MINUTE_MS INT64_C(60000)

static const struct backoff fixed_10s = {BACKOFF_FIXED, 10000, 10000};
static const struct backoff usual = {BACKOFF_EXPONENTIAL, 1000, 10 * MINUTE_MS};
static const struct backoff longest = {BACKOFF_EXPONENTIAL, 1, POLICY_DELAY_MS_MAX};
static const struct backoff odd = {BACKOFF_EXPONENTIAL, 700, 1000};

/* The middle of all chances: hardly any jitter. */
#define MIDDLE (UINT64_C(1) << 63)

struct wait_row {
    const struct backoff *backoff;
    uint32_t attempt;
    int64_t wait_ms;
    const char *why;
};

static const struct wait_row waits[] = {
    {&fixed_10s, 1, 10000, "fixed: the first"},
    {&fixed_10s, 2, 10000, "fixed: always the same"},
    {&fixed_10s, UINT32_MAX, 10000, "fixed: for ever"},
    {&usual, 1, 1000, "exponential: the first"},
    {&usual, 2, 2000, "exponential: doubled"},
    {&usual, 10, 512000, "exponential: the last below its longest"},
    {&usual, 11, 600000, "exponential: cut at its longest"},
    {&usual, 64, 600000, "as many doublings as there are bits"},
    {&usual, 65, 600000, "one more"},
    {&usual, UINT32_MAX, 600000, "as many attempts as can be"},
    {&odd, 2, 1000, "twice the first is beyond the longest"},
    {&longest, 39, INT64_C(1) << 38, "the last power of two within ten years"},
    {&longest, 40, POLICY_DELAY_MS_MAX, "ten years"},
    {&longest, 63, POLICY_DELAY_MS_MAX, "just before the bits end"},
    {&longest, 64, POLICY_DELAY_MS_MAX, "beyond the bits"},
};

CLAIM(waits_grow_and_stop_growing)
{
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        int64_t wait_ms = policy_backoff_ms(waits[i].backoff, waits[i].attempt, MIDDLE);

        if (wait_ms != waits[i].wait_ms)
            fail_msg("%s: %" PRId64, waits[i].why, wait_ms);
    }
}

CLAIM(jitter_reaches_20_percent_both_ways)
{
    assert_int_equal(policy_backoff_ms(&fixed_10s, 1, 0), 8000);
    assert_int_equal(policy_backoff_ms(&fixed_10s, 1, UINT64_MAX), 12000);
    assert_int_equal(policy_backoff_ms(&longest, 1, 0), 1);
    assert_int_equal(policy_backoff_ms(&longest, 1, UINT64_MAX), 1);
    assert_true(policy_backoff_ms(&longest, 99, UINT64_MAX) ==
                POLICY_DELAY_MS_MAX + POLICY_DELAY_MS_MAX / 5);
}

CLAIM(without_a_backoff_there_is_nothing_to_wait_for)
{
    const struct backoff none = {.kind = BACKOFF_NONE}, with_a_wait = {BACKOFF_NONE, 1, 1};

    assert_true(policy_backoff_is_valid(&none));
    assert_false(policy_backoff_is_valid(&with_a_wait));
    assert_int_equal(policy_backoff_ms(&none, 1, UINT64_MAX), 0);
    assert_int_equal(policy_backoff_ms(&none, UINT32_MAX, 0), 0);
}

CLAIM(a_policy_without_most_attempts_is_never_used_up)
{
    struct policy policy = {.max_attempts = POLICY_ATTEMPTS_MAX};

    assert_false(policy_is_used_up(&policy, POLICY_ATTEMPTS_MAX - 1));
    assert_true(policy_is_used_up(&policy, POLICY_ATTEMPTS_MAX));
    policy.max_attempts = POLICY_ATTEMPTS_NONE;
    assert_false(policy_is_used_up(&policy, POLICY_ATTEMPTS_MAX));
    assert_false(policy_is_used_up(&policy, UINT32_MAX));
}

CLAIM(no_attempt_and_no_chance_leaves_the_limits)
{
    const struct backoff absurd = {BACKOFF_EXPONENTIAL, INT64_MAX, INT64_MAX};
    struct random random = seed_random(__func__);

    for (int i = 0; i < 200000; i++) {
        int64_t max_ms = 1 + (int64_t)random_below(&random, POLICY_DELAY_MS_MAX);
        int64_t first_ms = 1 + (int64_t)random_below(&random, (uint64_t)max_ms);
        const struct backoff backoff = {BACKOFF_EXPONENTIAL, first_ms, max_ms};
        uint32_t attempt =
            1 + (uint32_t)random_below(&random, UINT64_C(1) << random_below(&random, 32));
        int64_t wait_ms = policy_backoff_ms(&backoff, attempt, random_next(&random));

        assert_true(wait_ms >= 1 && wait_ms >= first_ms - first_ms / 5);
        assert_true(wait_ms <= max_ms + max_ms / 5);
    }
    assert_true(policy_backoff_ms(&absurd, 1, UINT64_MAX) ==
                POLICY_DELAY_MS_MAX + POLICY_DELAY_MS_MAX / 5);
}

/* ---- text ---- */

struct text_row {
    const char *text;
    struct backoff backoff;
};

static const struct text_row texts[] = {
    {"fixed:10s", {BACKOFF_FIXED, 10000, 10000}},
    {"fixed:1ms", {BACKOFF_FIXED, 1, 1}},
    {"exp:1s..10m", {BACKOFF_EXPONENTIAL, 1000, 600000}},
    {"exp:1500ms..2h30m", {BACKOFF_EXPONENTIAL, 1500, 150 * MINUTE_MS}},
    {"exp:5s..5s", {BACKOFF_EXPONENTIAL, 5000, 5000}},
    {"exp:1ms..3653d", {BACKOFF_EXPONENTIAL, 1, POLICY_DELAY_MS_MAX}},
    {"none", {.kind = BACKOFF_NONE}},
};

CLAIM(backoff_texts_are_read_and_written_alike)
{
    struct backoff parsed;
    struct buffer out;

    buffer_init(&out, 100);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(policy_parse_backoff(slice_of(texts[i].text), &parsed));
        assert_int_equal(parsed.kind, texts[i].backoff.kind);
        assert_int_equal(parsed.first_ms, texts[i].backoff.first_ms);
        assert_int_equal(parsed.max_ms, texts[i].backoff.max_ms);
        buffer_clear(&out);
        policy_emit_backoff(&out, &parsed);
        assert_true(policy_parse_backoff(buffer_slice(&out), &parsed));
        assert_int_equal(parsed.first_ms, texts[i].backoff.first_ms);
        assert_int_equal(parsed.max_ms, texts[i].backoff.max_ms);
    }
    buffer_clear(&out);
    policy_emit_backoff(&out, &usual);
    assert_true(slice_is(buffer_slice(&out), "exp:1s..10m"));
    buffer_fini(&out);
}

static const char *const bad_texts[] = {
    "",
    "None",
    "none ",
    "none:1s",
    "10s",
    "fixed",
    "fixed:",
    "fixed:0",
    "fixed:-1s",
    "Fixed:1s",
    "fixed:1s..2s",
    "fixed: 1s",
    "fixed:1s ",
    "fixed:9999d",
    "exp:",
    "exp:1s",
    "exp:1s..",
    "exp:..1s",
    "exp:..",
    "exp:1s...2s",
    "exp:1s..2s..3s",
    "exp:2s..1s",
    "exp:0..1s",
    "exp:1s-2s",
    "exp:1s..3654d",
    "exp:1s..99999999999999999999d",
};

CLAIM(other_backoff_texts_are_refused)
{
    for (size_t i = 0; i < sizeof bad_texts / sizeof bad_texts[0]; i++) {
        struct backoff untouched = fixed_10s;

        if (policy_parse_backoff(slice_of(bad_texts[i]), &untouched))
            fail_msg("'%s' was taken", bad_texts[i]);
        assert_int_equal(untouched.kind, BACKOFF_FIXED);
        assert_true(untouched.first_ms == 10000 && untouched.max_ms == 10000);
    }
}

/* ---- fallbacks ---- */

CLAIM(unset_fields_fall_back_one_by_one)
{
    const struct policy nothing = {0};
    const struct policy topic = {.lease_ms = 5000, .ttl_ms = 7000, .max_attempts = 3};
    const struct policy job = {.lease_ms = 9000, .backoff = fixed_10s};
    struct policy all = policy_resolve(&nothing, &nothing);

    assert_int_equal(all.lease_ms, POLICY_LEASE_MS);
    assert_int_equal(all.ttl_ms, 0);
    assert_int_equal(all.max_attempts, POLICY_ATTEMPTS);
    assert_int_equal(all.backoff.kind, BACKOFF_EXPONENTIAL);
    assert_int_equal(all.backoff.first_ms, POLICY_BACKOFF_FIRST_MS);
    assert_int_equal(all.backoff.max_ms, POLICY_BACKOFF_MAX_MS);

    all = policy_resolve(&job, &topic);
    assert_int_equal(all.lease_ms, 9000);
    assert_int_equal(all.ttl_ms, 7000);
    assert_int_equal(all.max_attempts, 3);
    assert_int_equal(all.backoff.kind, BACKOFF_FIXED);
    assert_int_equal(all.backoff.max_ms, 10000);

    all = policy_resolve(&nothing, &topic);
    assert_int_equal(all.lease_ms, 5000);
    assert_int_equal(all.backoff.kind, BACKOFF_EXPONENTIAL);
}

CLAIMS_MAIN(NULL, NULL)
