/* Very many entries in the wheel: every call stays bounded, and they keep their order. */
#include "wheel_bench.h"

#include "unit/claim.h"
#include "unit/seed.h"

enum { CROWD = 1000000 };

static void add_crowd(struct bench *bench, int64_t when_ms)
{
    for (int i = 0; i < CROWD; i++)
        bench_add(bench, when_ms);
}

CLAIM(a_million_entries_in_one_slot_are_moved_in_bounded_steps)
{
    const int64_t when_ms = START_MS + 3600 * SECOND_MS;
    struct bench bench;
    uint32_t ids[256];
    int64_t now_ms = START_MS;

    bench_init(&bench, START_MS);
    add_crowd(&bench, when_ms);
    while (now_ms < when_ms) { /* bench_take asserts the bound of every call */
        assert_int_equal(bench_take(&bench, now_ms, ids, 256), 0);
        if (wheel_next_ms(&bench.wheel) > now_ms)
            now_ms = wheel_next_ms(&bench.wheel);
    }
    assert_true(bench.wheel.now_ms == when_ms || wheel_next_ms(&bench.wheel) == when_ms);
    assert_true(bench.wheel.moves <= (uint64_t)CROWD * (WHEEL_LEVELS - 1));
    wheel_check(&bench.wheel);
    /* All is in its own tick by now: nothing but full answers. */
    for (int left = CROWD; left > 0; left -= 256)
        assert_int_equal(bench_take(&bench, when_ms, ids, 256), left < 256 ? left : 256);
    wheel_check(&bench.wheel);
    bench_fini(&bench);
}

CLAIM(a_jump_over_a_million_entries_is_worked_off_in_bounded_calls)
{
    const int64_t hour_ms = 3600 * SECOND_MS;
    struct random random = seed_random(__func__);
    struct bench bench;
    int64_t now_ms = START_MS + hour_ms;
    uint32_t id;

    bench_init(&bench, START_MS);
    for (int i = 0; i < CROWD; i++)
        bench_add(&bench, START_MS + (int64_t)random_below(&random, (uint64_t)hour_ms));
    assert_int_equal(bench_take_all(&bench, now_ms, 64), CROWD);
    /* If the last answer was full, the wheel is still at the last entry. */
    assert_int_equal(bench_take(&bench, now_ms, &id, 1), 0);
    assert_true(bench.wheel.now_ms == now_ms && bench.wheel.count == 0);
    wheel_check(&bench.wheel);
    bench_fini(&bench);
}

CLAIM(entries_added_while_the_wheel_lags_keep_their_order)
{
    struct bench bench;
    uint32_t ids[256];
    int64_t now_ms = START_MS + DAY_MS;

    bench_init(&bench, START_MS);
    for (int i = 0; i < 10000; i++)
        bench_add(&bench, now_ms - 5000 + i % 977);
    while (wheel_next_ms(&bench.wheel) <= now_ms) {
        bench_take(&bench, now_ms, ids, 256);
        if (bench.fired < 30000) {
            bench_add(&bench, now_ms);
            bench_add(&bench, (bench.wheel.now_ms + now_ms) / 2);
            bench_add(&bench, now_ms - 1);
        }
        if (bench.fired % 16 == 0)
            wheel_check(&bench.wheel);
    }
    assert_int_equal(bench.wheel.count, 0);
    wheel_check(&bench.wheel);
    bench_fini(&bench);
}

CLAIMS_MAIN(NULL, NULL)
