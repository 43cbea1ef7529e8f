/* The heap, against looking at all items. */
#include "base/heap.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/fault_calls.h"
#include "unit/seed.h"

enum { TIMERS = 300, STEPS = 20000 };

struct timer {
    int64_t due_ms;
    size_t index;
    bool is_in;
};

static inline bool timer_before(struct timer *const *a, struct timer *const *b)
{
    return (*a)->due_ms < (*b)->due_ms;
}

static inline void timer_placed(struct timer **timer, size_t index)
{
    (*timer)->index = index;
}

HEAP_DECLARE(timers, struct timer *, timer_before, timer_placed)

static inline bool number_before(const int64_t *a, const int64_t *b)
{
    return *a < *b;
}

HEAP_DECLARE(numbers, int64_t, number_before, heap_place_unused)

/* Checks that each item has its place, and no item precedes its parent. */
static void check_timers(const struct timers *heap, const struct timer *all)
{
    size_t count = 0;
    for (size_t i = 0; i < TIMERS; i++) {
        count += all[i].is_in;
        if (all[i].is_in)
            assert_ptr_equal(heap->at[all[i].index], &all[i]);
        if (all[i].is_in)
            assert_true(heap->at[0]->due_ms <= all[i].due_ms);
    }
    assert_int_equal(heap->count, count);
    for (size_t i = 1; i < heap->count; i++)
        assert_true(heap->at[(i - 1) / 2]->due_ms <= heap->at[i]->due_ms);
}

CLAIM(the_first_is_always_the_smallest)
{
    struct random random = seed_random("heap");
    struct timer all[TIMERS] = {{0}};
    struct timers heap = {0};
    for (int step = 0; step < STEPS; step++) {
        struct timer *timer = &all[random_below(&random, TIMERS)];
        int64_t due_ms = (int64_t)random_below(&random, 200);
        uint64_t choice = random_below(&random, 3);
        if (!timer->is_in) {
            timer->due_ms = due_ms;
            timer->is_in = true;
            assert_true(timers_add(&heap, timer));
        } else if (choice == 0) {
            timer->due_ms = due_ms;
            timers_changed(&heap, timer->index);
        } else if (choice == 1) {
            assert_ptr_equal(timers_remove(&heap, timer->index), timer);
            timer->is_in = false;
        } else {
            timer = timers_take_first(&heap);
            assert_true(timer->is_in);
            timer->is_in = false;
            for (size_t i = 0; i < TIMERS; i++)
                assert_true(!all[i].is_in || timer->due_ms <= all[i].due_ms);
        }
        check_timers(&heap, all);
    }
    timers_fini(&heap);
    assert_null(heap.at);
}

CLAIM(comes_out_in_order)
{
    struct random random = seed_random("heap in order");
    struct numbers heap = {0};
    int64_t last = -1;
    for (int i = 0; i < 1000; i++)
        assert_true(numbers_add(&heap, (int64_t)random_below(&random, 500)));
    while (heap.count) {
        int64_t number = numbers_take_first(&heap);
        assert_true(number >= last);
        last = number;
    }
    numbers_fini(&heap);
}

CLAIM(is_unchanged_if_memory_runs_out)
{
    struct numbers heap = {0};
    calls_left = 0;
    assert_false(numbers_add(&heap, 3));
    assert_int_equal(heap.count, 0);
    assert_true(numbers_reserve(&heap, 50));
    calls_left = 0;
    for (int64_t i = 50; i > 0; i--)
        assert_true(numbers_add(&heap, i));
    assert_int_equal(heap.count, heap.cap);
    assert_false(numbers_add(&heap, 0));
    assert_int_equal(heap.count, 50);
    assert_int_equal(heap.at[0], 1);
    numbers_fini(&heap);
}

CLAIMS_MAIN(NULL, NULL)
