/* The wheel's single claims, most of them at every distance of a table. */
#include "unit/claim.h"
#include "wheel_bench.h"

CLAIM(an_empty_wheel_has_nothing_to_do)
{
    struct bench bench;
    uint32_t id;

    bench_init(&bench, START_MS);
    wheel_check(&bench.wheel);
    assert_true(wheel_next_ms(&bench.wheel) == INT64_MAX);
    assert_int_equal(wheel_take_due(&bench.wheel, START_MS + YEAR_MS, &id, 1), 0);
    assert_true(bench.wheel.now_ms == START_MS + YEAR_MS);
    wheel_check(&bench.wheel);
    bench_fini(&bench);
}

static const int64_t delays_ms[] = {
    0,
    1,
    31,
    32,
    33,
    63,
    64,
    65,
    1023,
    1024,
    1025,
    2047,
    2048,
    65535,
    65536,
    DAY_MS,
    INT64_C(4294967295), /* 2^32 - 1: a delay beyond it must not wrap round */
    INT64_C(4294967296),
    INT64_C(4294967297),
    YEAR_MS,
    3653 * DAY_MS,
    63 * (INT64_C(1) << 35), /* the reach */
};
static const int64_t starts_ms[] = {0, 1, 31, 32, 63, 1023, 1024, (INT64_C(1) << 35) - 1, START_MS};

enum {
    DELAYS = sizeof delays_ms / sizeof delays_ms[0],
    STARTS = sizeof starts_ms / sizeof starts_ms[0]
};

/* A slot is started as soon as the wheel enters the one before it, not when it must be empty. */
static void assert_begun_a_slot_ahead(struct bench *bench, uint32_t id, int64_t now_ms)
{
    const struct entry *entry = entry_at(bench, id);
    int level = (entry->node.place - 1) / WHEEL_SLOTS, shift = level * WHEEL_STEP_BITS;

    if (level > 0 && now_ms > bench->wheel.now_ms)
        assert_int_equal((entry->when_ms >> shift) - (now_ms >> shift), 1);
}

/* Follows wheel_next_ms as an idle server would, from `start_ms` until the one entry fires. */
static void follow_to(int64_t start_ms, int64_t when_ms)
{
    struct bench bench;
    int64_t now_ms = start_ms;
    int wakes = 0;
    uint32_t id;

    bench_init(&bench, start_ms);
    id = bench_add(&bench, when_ms);
    while (!bench.fired) {
        int64_t next_ms = wheel_next_ms(&bench.wheel);

        assert_true(next_ms <= when_ms);
        now_ms = next_ms > now_ms ? next_ms : now_ms;
        assert_begun_a_slot_ahead(&bench, id, now_ms);
        bench_take_all(&bench, now_ms, 1);
        wheel_check(&bench.wheel);
        assert_true(bench.fired == (now_ms == when_ms));
        assert_true(++wakes <= WHEEL_LEVELS + 1);
    }
    bench_fini(&bench);
}

CLAIM(fires_to_the_millisecond_at_any_distance)
{
    for (int s = 0; s < STARTS; s++)
        for (int d = 0; d < DELAYS; d++)
            follow_to(starts_ms[s], starts_ms[s] + delays_ms[d]);
}

CLAIM(never_fires_early)
{
    for (int d = 1; d < DELAYS; d++) {
        struct bench bench;

        bench_init(&bench, START_MS);
        bench_add(&bench, START_MS + delays_ms[d]);
        assert_int_equal(bench_take_all(&bench, START_MS + delays_ms[d] - 1, 8), 0);
        wheel_check(&bench.wheel);
        assert_int_equal(bench_take_all(&bench, START_MS + delays_ms[d], 8), 1);
        bench_fini(&bench);
    }
}

CLAIM(overdue_entries_fire_next)
{
    struct bench bench;
    uint32_t ids[3];

    bench_init(&bench, START_MS);
    bench_add(&bench, START_MS + 1);
    bench_add(&bench, 0);
    bench_add(&bench, START_MS - YEAR_MS);
    wheel_check(&bench.wheel);
    assert_true(wheel_next_ms(&bench.wheel) == START_MS);
    assert_int_equal(bench_take(&bench, START_MS + 1, ids, 3), 3);
    assert_int_equal(entry_at(&bench, ids[2])->when_ms, START_MS + 1);
    bench_fini(&bench);
}

CLAIM(time_going_back_changes_nothing)
{
    struct bench bench;
    uint32_t ids[2];

    bench_init(&bench, START_MS);
    bench_add(&bench, START_MS);
    bench_add(&bench, START_MS + 5);
    assert_int_equal(bench_take(&bench, START_MS - DAY_MS, ids, 2), 1);
    assert_true(bench.wheel.now_ms == START_MS);
    assert_int_equal(bench_take(&bench, START_MS - DAY_MS, ids, 2), 0);
    wheel_check(&bench.wheel);
    assert_int_equal(bench_take(&bench, START_MS + 5, ids, 2), 1);
    bench_fini(&bench);
}

CLAIM(a_cancelled_entry_never_fires)
{
    struct bench bench;
    uint32_t ids[DELAYS];

    for (int first = 0; first < 3; first++) { /* the head, the middle and the end of every list */
        bench_init(&bench, START_MS);
        for (int d = 0; d < DELAYS; d++)
            ids[d] = bench_add(&bench, START_MS + delays_ms[d]);
        for (int d = first; d < DELAYS; d += 3) {
            bench_cancel(&bench, ids[d]);
            wheel_check(&bench.wheel);
        }
        assert_int_equal(bench_take_all(&bench, START_MS + 70 * YEAR_MS, 2),
                         DELAYS - (DELAYS - first + 2) / 3);
        bench_fini(&bench);
    }
}

CLAIM(removing_an_absent_entry_does_nothing)
{
    struct bench bench;
    uint32_t id, out;

    bench_init(&bench, START_MS);
    id = bench_add(&bench, START_MS);
    assert_int_equal(bench_take(&bench, START_MS, &out, 1), 1);
    assert_int_equal(out, id);
    entry_at(&bench, id)->node.prev = entry_at(&bench, id)->node.next = 77; /* the owner's now */
    wheel_remove(&bench.wheel, id);
    assert_int_equal(bench.wheel.count, 0);
    wheel_check(&bench.wheel);
    bench_fini(&bench);
}

CLAIM(empty_ticks_cost_nothing)
{
    struct bench bench;

    bench_init(&bench, START_MS);
    for (int year = 1; year <= 10; year++)
        bench_add(&bench, START_MS + year * YEAR_MS);
    assert_int_equal(bench_take_all(&bench, START_MS + 10 * YEAR_MS, 100), 10);
    assert_true(bench.wheel.moves <= 10 * (WHEEL_LEVELS - 1));
    assert_true(bench.wheel.stops <= 10 * WHEEL_LEVELS);
    bench_fini(&bench);
}

CLAIMS_MAIN(NULL, NULL)
