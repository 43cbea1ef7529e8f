/* The vector, against an array that is large enough. */
#include "base/vector.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/fault_calls.h"
#include "unit/seed.h"

enum { ITEMS_MAX = 500, STEPS = 20000 };

VECTOR_DECLARE(numbers, uint32_t)

struct model {
    uint32_t at[ITEMS_MAX];
    size_t count;
};

static void model_insert(struct model *model, size_t index, uint32_t item)
{
    for (size_t i = model->count++; i > index; i--)
        model->at[i] = model->at[i - 1];
    model->at[index] = item;
}

static void model_remove(struct model *model, size_t index)
{
    for (size_t i = index + 1; i < model->count; i++)
        model->at[i - 1] = model->at[i];
    model->count--;
}

static void check_numbers(const struct numbers *vector, const struct model *model)
{
    assert_int_equal(vector->count, model->count);
    assert_true(vector->cap >= vector->count);
    for (size_t i = 0; i < model->count; i++)
        assert_int_equal(vector->at[i], model->at[i]);
}

CLAIM(behaves_like_an_array)
{
    struct random random = seed_random("vector");
    struct numbers vector = {0};
    struct model model = {.count = 0};
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t choice = random_below(&random, 6);
        size_t index = (size_t)random_below(&random, model.count + 1);
        if (choice < 2 && model.count < ITEMS_MAX) {
            assert_true(numbers_add(&vector, step));
            model_insert(&model, model.count, step);
        } else if (choice == 2 && model.count < ITEMS_MAX) {
            assert_true(numbers_insert(&vector, index, step));
            model_insert(&model, index, step);
        } else if (choice > 2 && index < model.count) {
            numbers_remove(&vector, index);
            model_remove(&model, index);
        }
        check_numbers(&vector, &model);
    }
    numbers_fini(&vector);
    assert_null(vector.at);
    assert_int_equal(vector.cap, 0);
}

CLAIM(is_unchanged_if_memory_runs_out)
{
    struct numbers vector = {0};
    calls_left = 0;
    assert_false(numbers_add(&vector, 1));
    assert_int_equal(vector.count, 0);
    while (vector.count < vector.cap || vector.count == 0)
        assert_true(numbers_add(&vector, 7));
    size_t full = vector.count;
    calls_left = 0;
    assert_false(numbers_insert(&vector, 0, 8));
    assert_int_equal(vector.count, full);
    assert_int_equal(vector.at[0], 7);
    assert_true(numbers_insert(&vector, 0, 8));
    assert_int_equal(vector.at[0], 8);
    assert_int_equal(vector.at[full], 7);
    numbers_fini(&vector);
}

CLAIM(reserved_items_need_no_memory)
{
    struct numbers vector = {0};
    assert_true(numbers_reserve(&vector, 100));
    calls_left = 0;
    for (uint32_t i = 0; i < 100; i++)
        assert_true(numbers_add(&vector, i));
    calls_left = -1;
    numbers_fini(&vector);
}

CLAIM(an_overflowing_count_is_out_of_memory)
{
    struct numbers vector = {0};
    assert_true(numbers_add(&vector, 5));
    assert_false(numbers_reserve(&vector, SIZE_MAX));
    assert_false(numbers_reserve(&vector, SIZE_MAX / 4 + 1));
    assert_int_equal(vector.count, 1);
    assert_int_equal(vector.at[0], 5);
    size_t cap = SIZE_MAX / 2 + 1; /* twice as many overflow */
    assert_null(vector_grow(NULL, 4, cap + 1, &cap));
    assert_true(cap == SIZE_MAX / 2 + 1);
    numbers_fini(&vector);
}

CLAIM(room_doubles)
{
    struct numbers vector = {0};
    size_t moves = 0, cap = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        assert_true(numbers_add(&vector, i));
        moves += vector.cap != cap;
        cap = vector.cap;
    }
    assert_true(moves < 20);
    numbers_fini(&vector);
}

CLAIMS_MAIN(NULL, NULL)
