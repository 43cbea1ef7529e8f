/* wheel_bench: a wheel with a slab of its own; every call is held to what each call must keep. */
#ifndef TARRY_TESTS_WHEEL_BENCH_H
#define TARRY_TESTS_WHEEL_BENCH_H

#include "wheel/wheel.h"

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

static inline void bench_init(struct bench *bench, int64_t now_ms)
{
    memset(bench, 0, sizeof *bench);
    slab_init(&bench->slab, sizeof(struct entry));
    wheel_init(&bench->wheel, &bench->slab, now_ms);
}

static inline void bench_fini(struct bench *bench)
{
    slab_fini(&bench->slab);
}

static inline struct entry *entry_at(struct bench *bench, uint32_t id)
{
    return slab_at(&bench->slab, id);
}

static inline uint32_t bench_add(struct bench *bench, int64_t when_ms)
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

static inline void bench_cancel(struct bench *bench, uint32_t id)
{
    wheel_remove(&bench->wheel, id);
    slab_remove(&bench->slab, id);
}

/* Makes one call and checks its invariants. Returns how many came out. */
static inline size_t bench_take(struct bench *bench, int64_t now_ms, uint32_t *ids, size_t max)
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
static inline size_t bench_take_all(struct bench *bench, int64_t now_ms, size_t max)
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

#endif
