/* The wheel against tables, and against a model without any cleverness. */
#include "wheel/wheel.h"

#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_MS INT64_C(1000)
#define DAY_MS (86400 * SECOND_MS)
#define YEAR_MS (365 * DAY_MS)
#define START_MS INT64_C(1790000000123)

struct entry {
    struct wheel_node node;
    int64_t when_ms;  /* as asked for */
    int64_t order_ms; /* when_ms, but not before the wheel's time when it was added */
    uint64_t waiting;
};

struct bench {
    struct slab slab;
    struct wheel wheel;
    int64_t last_order_ms; /* of what came out last */
    size_t fired;
};

static void bench_init(struct bench *bench, int64_t now_ms)
{
    memset(bench, 0, sizeof *bench);
    slab_init(&bench->slab, sizeof(struct entry));
    wheel_init(&bench->wheel, &bench->slab, now_ms);
}

static void bench_fini(struct bench *bench)
{
    slab_fini(&bench->slab);
}

static struct entry *entry_at(struct bench *bench, uint32_t id)
{
    return slab_at(&bench->slab, id);
}

static uint32_t bench_add(struct bench *bench, int64_t when_ms)
{
    uint32_t id = slab_add(&bench->slab);
    struct entry *entry = entry_at(bench, id);

    assert_int_not_equal(id, 0);
    entry->when_ms = when_ms;
    entry->order_ms = when_ms > bench->wheel.now_ms ? when_ms : bench->wheel.now_ms;
    entry->waiting = true;
    wheel_add(&bench->wheel, id, when_ms);
    return id;
}

static void bench_cancel(struct bench *bench, uint32_t id)
{
    wheel_remove(&bench->wheel, id);
    slab_remove(&bench->slab, id);
}

/* One call; what every call must keep. Returns how many came out. */
static size_t bench_take(struct bench *bench, int64_t now_ms, uint32_t *ids, size_t max)
{
    uint64_t moves = bench->wheel.moves, stops = bench->wheel.stops;
    int64_t latest_ms = now_ms > bench->wheel.now_ms ? now_ms : bench->wheel.now_ms;
    size_t count = wheel_take_due(&bench->wheel, now_ms, ids, max);

    assert_true(count <= max);
    assert_true(bench->wheel.moves - moves <= WHEEL_MOVES_MAX);
    assert_true(bench->wheel.stops - stops <= max + WHEEL_MOVES_MAX + 2 * WHEEL_LEVELS);
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = entry_at(bench, ids[i]);

        assert_true(entry->waiting);
        assert_true(entry->when_ms <= latest_ms);
        assert_true(entry->order_ms >= bench->last_order_ms);
        entry->waiting = false;
        bench->last_order_ms = entry->order_ms;
    }
    bench->fired += count;
    return count;
}

/* Calls as long as there is more to do now; gives the slab its items back. */
static size_t bench_take_all(struct bench *bench, int64_t now_ms, size_t max)
{
    uint32_t ids[1024];
    size_t count, all = 0;

    assert_true(max <= 1024);
    do {
        count = bench_take(bench, now_ms, ids, max);
        for (size_t i = 0; i < count; i++)
            slab_remove(&bench->slab, ids[i]);
        all += count;
    } while (wheel_next_ms(&bench->wheel) <= now_ms);
    return all;
}

/* ---- single claims ---- */

static void an_empty_wheel_has_nothing_to_do(void **unused)
{
    struct bench bench;
    uint32_t id;

    (void)unused;
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

/* A slot is begun as soon as the wheel stands in the one before it, not when it must be empty. */
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

static void fires_to_the_millisecond_at_any_distance(void **unused)
{
    (void)unused;
    for (int s = 0; s < STARTS; s++)
        for (int d = 0; d < DELAYS; d++)
            follow_to(starts_ms[s], starts_ms[s] + delays_ms[d]);
}

static void never_fires_early(void **unused)
{
    (void)unused;
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

static void what_is_overdue_when_added_goes_out_next(void **unused)
{
    struct bench bench;
    uint32_t ids[3];

    (void)unused;
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

static void time_going_back_changes_nothing(void **unused)
{
    struct bench bench;
    uint32_t ids[2];

    (void)unused;
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

static void a_cancelled_entry_never_fires(void **unused)
{
    struct bench bench;
    uint32_t ids[DELAYS];

    (void)unused;
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

static void removing_what_is_not_in_the_wheel_does_nothing(void **unused)
{
    struct bench bench;
    uint32_t id, out;

    (void)unused;
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

static void empty_ticks_cost_nothing(void **unused)
{
    struct bench bench;

    (void)unused;
    bench_init(&bench, START_MS);
    for (int year = 1; year <= 10; year++)
        bench_add(&bench, START_MS + year * YEAR_MS);
    assert_int_equal(bench_take_all(&bench, START_MS + 10 * YEAR_MS, 100), 10);
    assert_true(bench.wheel.moves <= 10 * (WHEEL_LEVELS - 1));
    assert_true(bench.wheel.stops <= 10 * WHEEL_LEVELS);
    bench_fini(&bench);
}

/* ---- crowds ---- */

enum { CROWD = 1000000 };

static void add_crowd(struct bench *bench, int64_t when_ms)
{
    for (int i = 0; i < CROWD; i++)
        bench_add(bench, when_ms);
}

static void a_million_entries_in_one_slot_are_moved_in_bounded_steps(void **unused)
{
    const int64_t when_ms = START_MS + 3600 * SECOND_MS;
    struct bench bench;
    uint32_t ids[256];
    int64_t now_ms = START_MS;

    (void)unused;
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

static void a_jump_over_a_million_entries_is_worked_off_in_bounded_calls(void **unused)
{
    const int64_t hour_ms = 3600 * SECOND_MS;
    struct random random = seed_random(__func__);
    struct bench bench;
    int64_t now_ms = START_MS + hour_ms;
    uint32_t id;

    (void)unused;
    bench_init(&bench, START_MS);
    for (int i = 0; i < CROWD; i++)
        bench_add(&bench, START_MS + (int64_t)random_below(&random, (uint64_t)hour_ms));
    assert_int_equal(bench_take_all(&bench, now_ms, 64), CROWD);
    /* Where the last answer was a full one the wheel still stands at the last entry. */
    assert_int_equal(bench_take(&bench, now_ms, &id, 1), 0);
    assert_true(bench.wheel.now_ms == now_ms && bench.wheel.count == 0);
    wheel_check(&bench.wheel);
    bench_fini(&bench);
}

static void entries_added_while_the_wheel_lags_keep_their_order(void **unused)
{
    struct bench bench;
    uint32_t ids[256];
    int64_t now_ms = START_MS + DAY_MS;

    (void)unused;
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

/* ---- against the model: every entry there is, in no order at all ---- */

enum { MODEL_MAX = 400, MODEL_STEPS = 6000, MODEL_ROUNDS = 12 };

struct model {
    uint32_t ids[MODEL_MAX];
    size_t count;
};

static void model_forget(struct model *model, uint32_t id)
{
    for (size_t i = 0; i < model->count; i++)
        if (model->ids[i] == id) {
            model->ids[i] = model->ids[--model->count];
            return;
        }
    fail_msg("an entry fired that was not there");
}

static int64_t model_earliest_ms(const struct model *model, struct bench *bench)
{
    int64_t earliest_ms = INT64_MAX;

    for (size_t i = 0; i < model->count; i++)
        if (entry_at(bench, model->ids[i])->order_ms < earliest_ms)
            earliest_ms = entry_at(bench, model->ids[i])->order_ms;
    return earliest_ms;
}

/* From 0 up to about 18 years, every size as likely. */
static int64_t random_span_ms(struct random *random)
{
    return (int64_t)random_below(random, UINT64_C(1) << random_below(random, 40));
}

static void model_add(struct model *model, struct bench *bench, struct random *random,
                      int64_t now_ms)
{
    int64_t when_ms = now_ms + random_span_ms(random);
    size_t crowd = random_below(random, 20) ? 1 : 40;

    if (random_below(random, 10) == 0)
        when_ms = now_ms - (int64_t)random_below(random, (uint64_t)now_ms);
    while (crowd-- > 0 && model->count < MODEL_MAX)
        model->ids[model->count++] = bench_add(bench, when_ms);
}

static void model_cancel(struct model *model, struct bench *bench, struct random *random)
{
    uint32_t id;

    if (model->count == 0)
        return;
    id = model->ids[random_below(random, model->count)];
    model_forget(model, id);
    bench_cancel(bench, id);
}

static void model_take(struct model *model, struct bench *bench, struct random *random,
                       int64_t now_ms)
{
    uint32_t ids[64];
    size_t count = bench_take(bench, now_ms, ids, 1 + random_below(random, 64));

    for (size_t i = 0; i < count; i++) {
        model_forget(model, ids[i]);
        slab_remove(&bench->slab, ids[i]);
    }
    if (wheel_next_ms(&bench->wheel) > now_ms) /* nothing more to do: then nothing due is left */
        assert_true(model_earliest_ms(model, bench) > now_ms);
}

static void model_round(struct random *random)
{
    struct model model = {0};
    struct bench bench;
    int64_t now_ms = START_MS + random_span_ms(random);

    bench_init(&bench, now_ms);
    for (int step = 0; step < MODEL_STEPS; step++) {
        switch (random_below(random, 4)) {
        case 0:
            model_add(&model, &bench, random, now_ms);
            break;
        case 1:
            model_cancel(&model, &bench, random);
            break;
        case 2:
            if (random_below(random, 3) == 0)
                now_ms += random_span_ms(random) >> random_below(random, 24);
            else if (wheel_next_ms(&bench.wheel) != INT64_MAX)
                now_ms += random_below(random, 2) && wheel_next_ms(&bench.wheel) > now_ms
                              ? wheel_next_ms(&bench.wheel) - now_ms
                              : (int64_t)random_below(random, 40);
            break;
        default:
            model_take(&model, &bench, random, now_ms);
        }
        wheel_check(&bench.wheel);
        assert_int_equal(bench.wheel.count, model.count);
        assert_true(wheel_next_ms(&bench.wheel) <= model_earliest_ms(&model, &bench));
        assert_true(wheel_next_ms(&bench.wheel) >= bench.wheel.now_ms);
    }
    bench_take_all(&bench, now_ms + 20 * YEAR_MS, 64);
    assert_int_equal(bench.wheel.count, 0);
    bench_fini(&bench);
}

static void fires_every_entry_once(void **unused)
{
    struct random random = seed_random(__func__);

    (void)unused;
    for (int round = 0; round < MODEL_ROUNDS; round++)
        model_round(&random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_wheel_has_nothing_to_do),
        cmocka_unit_test(fires_to_the_millisecond_at_any_distance),
        cmocka_unit_test(never_fires_early),
        cmocka_unit_test(what_is_overdue_when_added_goes_out_next),
        cmocka_unit_test(time_going_back_changes_nothing),
        cmocka_unit_test(a_cancelled_entry_never_fires),
        cmocka_unit_test(removing_what_is_not_in_the_wheel_does_nothing),
        cmocka_unit_test(empty_ticks_cost_nothing),
        cmocka_unit_test(a_million_entries_in_one_slot_are_moved_in_bounded_steps),
        cmocka_unit_test(a_jump_over_a_million_entries_is_worked_off_in_bounded_calls),
        cmocka_unit_test(entries_added_while_the_wheel_lags_keep_their_order),
        cmocka_unit_test(fires_every_entry_once),
    };

    return cmocka_run_group_tests_name("wheel", tests, NULL, NULL);
}
