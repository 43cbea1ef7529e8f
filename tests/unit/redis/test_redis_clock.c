#include "redis/clock.h"

#include "unit/cases.h"
#include "unit/seed.h"

static void the_first_answer_is_believed(void **state)
{
    struct redis_clock clock = {0};
    int64_t apart_ms = 77;
    (void)state;
    assert_true(redis_clock_hear(&clock, 5000000, 1000, 1004, &apart_ms));
    assert_true(clock.known);
    assert_int_equal(apart_ms, 77);
    assert_true(5000000 - 1004 > clock.offset_min_ms && 5000000 - 1000 < clock.offset_max_ms);
}

static void knows_nothing_that_is_due(void **state)
{
    struct redis_clock clock = {0};
    int64_t apart_ms;
    (void)state;
    assert_true(redis_clock_hear(&clock, 5000000, 1000, 1000, &apart_ms));
    assert_int_equal(redis_clock_to_inner(&clock, INT64_MAX), INT64_MAX);
}

/* Two clocks that run alike, read at random moments of random journeys, both rounded down. */
static void waking_is_never_before_and_soon_after(void **state)
{
    struct random random = seed_random("waking_is_never_before_and_soon_after");
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct redis_clock clock = {0};
        double offset = (double)random_below(&random, 1000000) / 7.0 - 70000.0, worst = 0;
        for (int i = 0; i < 50; i++) {
            double sent = 1e6 + i * 100 + (double)random_below(&random, 1000) / 1000.0;
            double out = (double)random_below(&random, 3000) / 1000.0;
            double back = (double)random_below(&random, i < 40 ? 9000 : 200) / 1000.0;
            int64_t apart_ms;
            if (i >= 40)
                out /= 20;
            assert_true(redis_clock_hear(&clock, (int64_t)(sent + out + offset), (int64_t)(sent),
                                         (int64_t)(sent + out + back), &apart_ms));
            /* The shard shows `due` from due - offset of ours on. */
            double due = (double)(int64_t)(sent + offset) + 1000;
            double late = (double)redis_clock_to_inner(&clock, (int64_t)due) - (due - offset);
            if (late < 0)
                fail_msg("%g ms early", -late);
            worst = late;
        }
        assert_true(worst < 3);
    }
}

static void a_jump_is_told_and_not_followed(void **state)
{
    static const struct {
        int64_t by_ms;
        bool agrees;
        const char *sentence;
    } rows[] = {
        {0, true, "the same"},
        {REDIS_CLOCK_APART_MS - 2, true, "nearly half a second ahead"},
        {2 - REDIS_CLOCK_APART_MS, true, "nearly half a second behind"},
        {REDIS_CLOCK_APART_MS + 10, false, "more than half a second ahead"},
        {-REDIS_CLOCK_APART_MS - 10, false, "more than half a second behind"},
        {3600000, false, "an hour ahead"},
        {-3600000, false, "an hour behind"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis_clock clock = {0};
        int64_t apart_ms = 0;
        assert_true(redis_clock_hear(&clock, 50000, 1000, 1001, &apart_ms));
        struct redis_clock before = clock;
        bool agrees = redis_clock_hear(&clock, 60000 + rows[i].by_ms, 11000, 11001, &apart_ms);
        CASE_HOLDS(rows[i].sentence, agrees == rows[i].agrees);
        if (agrees)
            continue;
        CASE_HOLDS(rows[i].sentence, apart_ms >= rows[i].by_ms && apart_ms <= rows[i].by_ms + 4);
        CASE_HOLDS(rows[i].sentence, clock.offset_min_ms == before.offset_min_ms &&
                                         clock.offset_max_ms == before.offset_max_ms);
        /* Set back by that much, it runs as it ran. */
        CASE_HOLDS(rows[i].sentence, redis_clock_hear(&clock, 70000 + rows[i].by_ms - apart_ms,
                                                      21000, 21001, &apart_ms));
    }
}

/* A server that stood still for five seconds has read its clock before or after that. */
static void an_answer_that_was_held_up_is_no_jump(void **state)
{
    int64_t apart_ms;
    (void)state;
    for (int64_t read_ms = 0; read_ms <= 5000; read_ms += 5000) {
        struct redis_clock first = {0}, later = {0};
        assert_true(redis_clock_hear(&first, 50000 + read_ms, 1000, 6000, &apart_ms));
        assert_true(redis_clock_hear(&first, 60000, 11000, 11001, &apart_ms));
        assert_in_range(redis_clock_to_inner(&first, 60000), 11001, 11002);

        assert_true(redis_clock_hear(&later, 50000, 1000, 1001, &apart_ms));
        assert_true(redis_clock_hear(&later, 60000 + read_ms, 11000, 16000, &apart_ms));
        assert_in_range(redis_clock_to_inner(&later, 60000), 11001, 11002);
    }
}

static void drift_is_followed_for_ever(void **state)
{
    (void)state;
    for (int direction = -1; direction <= 1; direction += 2) {
        struct redis_clock clock = {0};
        int64_t apart_ms, shard_ms = 0;
        /* A day of answers a second apart; a hundredth of a percent is much for a clock. */
        for (int64_t second = 0; second < 86400; second++) {
            int64_t inner_ms = second * 1000;
            shard_ms = 90000 + inner_ms + direction * inner_ms / 10000;
            assert_true(redis_clock_hear(&clock, shard_ms, inner_ms, inner_ms + 1, &apart_ms));
            int64_t late_ms = redis_clock_to_inner(&clock, shard_ms) - inner_ms;
            assert_true(late_ms >= -2 && late_ms <= 3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_answer_is_believed),
        cmocka_unit_test(knows_nothing_that_is_due),
        cmocka_unit_test(waking_is_never_before_and_soon_after),
        cmocka_unit_test(a_jump_is_told_and_not_followed),
        cmocka_unit_test(an_answer_that_was_held_up_is_no_jump),
        cmocka_unit_test(drift_is_followed_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
