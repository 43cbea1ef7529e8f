/* When a failed job tries again. */
#include "job/policy.h"

#include "unit/claim.h"
#include "unit/seed.h"

#define MINUTE_MS INT64_C(60000)

static const struct backoff fixed_10s = {.kind = BACKOFF_FIXED, .first_ms = 10000, .max_ms = 10000};
static const struct backoff usual = {
    .kind = BACKOFF_EXPONENTIAL, .first_ms = 1000, .max_ms = 10 * MINUTE_MS};
static const struct backoff longest = {
    .kind = BACKOFF_EXPONENTIAL, .first_ms = 1, .max_ms = POLICY_DELAY_MS_MAX};
static const struct backoff odd = {.kind = BACKOFF_EXPONENTIAL, .first_ms = 700, .max_ms = 1000};

static const struct backoff a_list = {
    .kind = BACKOFF_LIST, .step_count = 3, .steps_ms = {10000, 60000, 1000}};
static const struct backoff one_step = {.kind = BACKOFF_LIST, .step_count = 1, .steps_ms = {5}};

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
    {&a_list, 1, 10000, "list: the first"},
    {&a_list, 2, 60000, "list: the second"},
    {&a_list, 3, 1000, "list: the last"},
    {&a_list, 4, 1000, "list: the last repeats"},
    {&a_list, UINT32_MAX, 1000, "list: for ever"},
    {&one_step, 1, 5, "list: of one wait"},
    {&one_step, 2, 5, "list: of one wait, again"},
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
    const struct backoff none = {.kind = BACKOFF_NONE},
                         with_a_wait = {.kind = BACKOFF_NONE, .first_ms = 1, .max_ms = 1};

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
    const struct backoff absurd = {
        .kind = BACKOFF_EXPONENTIAL, .first_ms = INT64_MAX, .max_ms = INT64_MAX};
    struct random random = seed_random(__func__);

    for (int i = 0; i < 200000; i++) {
        int64_t max_ms = 1 + (int64_t)random_below(&random, POLICY_DELAY_MS_MAX);
        int64_t first_ms = 1 + (int64_t)random_below(&random, (uint64_t)max_ms);
        const struct backoff backoff = {
            .kind = BACKOFF_EXPONENTIAL, .first_ms = first_ms, .max_ms = max_ms};
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
    {"fixed:10s", {.kind = BACKOFF_FIXED, .first_ms = 10000, .max_ms = 10000}},
    {"fixed:1ms", {.kind = BACKOFF_FIXED, .first_ms = 1, .max_ms = 1}},
    {"exp:1s..10m", {.kind = BACKOFF_EXPONENTIAL, .first_ms = 1000, .max_ms = 600000}},
    {"exp:1500ms..2h30m",
     {.kind = BACKOFF_EXPONENTIAL, .first_ms = 1500, .max_ms = 150 * MINUTE_MS}},
    {"exp:5s..5s", {.kind = BACKOFF_EXPONENTIAL, .first_ms = 5000, .max_ms = 5000}},
    {"exp:1ms..3653d", {.kind = BACKOFF_EXPONENTIAL, .first_ms = 1, .max_ms = POLICY_DELAY_MS_MAX}},
    {"none", {.kind = BACKOFF_NONE}},
    {"list:10s,1m,1s", {.kind = BACKOFF_LIST, .step_count = 3, .steps_ms = {10000, 60000, 1000}}},
    {"list:5ms", {.kind = BACKOFF_LIST, .step_count = 1, .steps_ms = {5}}},
    {"list:1h30m,PT1.5S,30d",
     {.kind = BACKOFF_LIST, .step_count = 3, .steps_ms = {5400000, 1500, BACKOFF_STEP_MS_MAX}}},
    {"list:1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,2s",
     {.kind = BACKOFF_LIST,
      .step_count = 16,
      .steps_ms = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000,
                   1000, 1000, 2000}}},
};

CLAIM(backoff_texts_are_read_and_written_alike)
{
    struct backoff parsed;
    struct buffer out;

    buffer_init(&out, 100);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(policy_parse_backoff(slice_of(texts[i].text), &parsed));
        assert_true(policy_backoff_is_valid(&parsed));
        assert_true(policy_backoff_equal(&parsed, &texts[i].backoff));
        assert_int_equal(parsed.kind, texts[i].backoff.kind);
        assert_int_equal(parsed.first_ms, texts[i].backoff.first_ms);
        assert_int_equal(parsed.max_ms, texts[i].backoff.max_ms);
        buffer_clear(&out);
        policy_emit_backoff(&out, &parsed);
        assert_true(policy_parse_backoff(buffer_slice(&out), &parsed));
        assert_true(policy_backoff_equal(&parsed, &texts[i].backoff));
        assert_int_equal(parsed.first_ms, texts[i].backoff.first_ms);
        assert_int_equal(parsed.max_ms, texts[i].backoff.max_ms);
    }
    buffer_clear(&out);
    policy_emit_backoff(&out, &usual);
    assert_true(slice_is(buffer_slice(&out), "exp:1s..10m"));
    buffer_clear(&out);
    policy_emit_backoff(&out, &a_list);
    assert_true(slice_is(buffer_slice(&out), "list:10s,1m,1s"));
    buffer_fini(&out);
}

CLAIM(waits_for_a_database_are_read_and_written_alike)
{
    struct backoff longest_list = {.kind = BACKOFF_LIST, .step_count = BACKOFF_STEPS_MAX}, read;
    char text[BACKOFF_STEPS_BYTES_MAX];
    static const char *const bad[] = {
        "",    ",",  "1,", ",1", "1,,2",       "0",
        "1,0", "-1", "1s", "1 ", "2592000001", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};

    assert_true(slice_is(policy_write_steps(&a_list, text), "10000,60000,1000"));
    assert_true(policy_parse_steps(slice_of("10000,60000,1000"), &read));
    assert_true(policy_backoff_equal(&read, &a_list));
    assert_int_equal(policy_write_steps(&usual, text).len, 0);
    for (size_t i = 0; i < BACKOFF_STEPS_MAX; i++)
        longest_list.steps_ms[i] = (uint32_t)BACKOFF_STEP_MS_MAX;
    assert_true(policy_parse_steps(policy_write_steps(&longest_list, text), &read));
    assert_true(policy_backoff_equal(&read, &longest_list));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        read = usual;
        if (policy_parse_steps(slice_of(bad[i]), &read))
            fail_msg("'%s' was taken", bad[i]);
        assert_true(policy_backoff_equal(&read, &usual));
    }
}

CLAIM(a_list_is_valid_only_with_its_own_waits)
{
    struct backoff list = a_list;

    assert_true(policy_backoff_is_valid(&list));
    list.step_count = 2;
    assert_false(policy_backoff_is_valid(&list));
    list.step_count = 4;
    assert_false(policy_backoff_is_valid(&list));
    list.step_count = BACKOFF_STEPS_MAX + 1;
    assert_false(policy_backoff_is_valid(&list));
    list.step_count = 0;
    assert_false(policy_backoff_is_valid(&list));
    list = a_list;
    list.first_ms = list.max_ms = 1;
    assert_false(policy_backoff_is_valid(&list));
    list = fixed_10s;
    list.step_count = 1;
    assert_false(policy_backoff_is_valid(&list));
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
    "list",
    "list:",
    "list:,",
    "list:1s,",
    "list:,1s",
    "list:1s,,2s",
    "list:1s, 2s",
    "list:0",
    "list:1s,0",
    "list:10",
    "list:1s..2s",
    "list:31d",
    "list:1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s",
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
