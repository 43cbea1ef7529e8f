#include "base/histogram.h"

#include "unit/cases.h"
#include "unit/seed.h"

#include <string.h>

static void counts_small_values_exactly(void **state)
{
    struct histogram histogram = {0};

    (void)state;
    for (uint64_t value = 1; value <= 20; value++)
        histogram_add(&histogram, value);
    assert_int_equal(histogram.count, 20);
    assert_int_equal(histogram.sum, 210);
    assert_int_equal(histogram.max, 20);
    assert_int_equal(histogram_at(&histogram, 0), 1);
    assert_int_equal(histogram_at(&histogram, 0.5), 10);
    assert_int_equal(histogram_at(&histogram, 0.51), 11);
    assert_int_equal(histogram_at(&histogram, 0.99), 20);
    assert_int_equal(histogram_at(&histogram, 1), 20);
    assert_int_equal(histogram_count_to(&histogram, 0), 0);
    assert_int_equal(histogram_count_to(&histogram, 7), 7);
    assert_int_equal(histogram_count_to(&histogram, UINT64_MAX), 20);
}

static void an_empty_histogram_has_no_quantiles(void **state)
{
    struct histogram histogram = {0};

    (void)state;
    assert_int_equal(histogram_at(&histogram, 0.99), 0);
    assert_int_equal(histogram_count_to(&histogram, 100), 0);
}

static void never_errs_by_more_than_a_32nd(void **state)
{
    struct random random = seed_random("never_errs_by_more_than_a_32nd");

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct histogram histogram = {0};
        uint64_t value = random_next(&random) >> (24 + random_below(&random, 40));
        histogram_add(&histogram, value);
        histogram_add(&histogram, UINT64_C(1) << 41);
        uint64_t at = histogram_at(&histogram, 0.5);
        assert_true(at >= value && at - value <= value / 32);
        assert_int_equal(histogram_count_to(&histogram, value), 1);
        if (value > 0)
            assert_int_equal(histogram_count_to(&histogram, value - value / 16 - 1), 0);
    }
}

static void keeps_values_beyond_its_range(void **state)
{
    struct histogram histogram = {0};

    (void)state;
    histogram_add(&histogram, 1);
    histogram_add(&histogram, UINT64_MAX / 2);
    assert_int_equal(histogram_at(&histogram, 1), UINT64_MAX / 2);
    assert_int_equal(histogram_count_to(&histogram, UINT64_C(1) << 40), 1);
    assert_int_equal(histogram_count_to(&histogram, UINT64_MAX), 2);
}

static void merges_as_if_all_had_gone_into_one(void **state)
{
    struct random random = seed_random("merges_as_if_all_had_gone_into_one");
    static struct histogram all, parts[3];

    (void)state;
    for (int i = 0; i < 30000; i++) {
        uint64_t value = random_next(&random) >> random_below(&random, 64);
        histogram_add(&all, value);
        histogram_add(&parts[i % 3], value);
    }
    histogram_merge(&parts[0], &parts[1]);
    histogram_merge(&parts[0], &parts[2]);
    assert_memory_equal(&parts[0], &all, sizeof all);
}

static void a_shared_histogram_has_the_same_values(void **state)
{
    struct random random = seed_random("a_shared_histogram_has_the_same_values");
    static struct histogram plain, read;
    static struct shared_histogram shared;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        uint64_t value = random_next(&random) >> random_below(&random, 64);
        histogram_add(&plain, value);
        shared_histogram_add(&shared, value);
    }
    shared_histogram_merge(&read, &shared);
    assert_memory_equal(&read, &plain, sizeof plain);
    shared_histogram_merge(&read, &shared);
    histogram_merge(&plain, &plain);
    assert_memory_equal(&read, &plain, sizeof plain);
}

static void never_falls_as_the_fraction_rises(void **state)
{
    struct random random = seed_random("never_falls_as_the_fraction_rises");
    struct histogram histogram = {0};
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 10000; i++)
        histogram_add(&histogram, random_next(&random) >> random_below(&random, 64));
    for (int i = 0; i <= 1000; i++) {
        uint64_t at = histogram_at(&histogram, i / 1000.0);
        assert_true(at >= last && at <= histogram.max);
        assert_true((double)histogram_count_to(&histogram, at) >= i / 1000.0 * 10000 - 1e-6);
        last = at;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_small_values_exactly),
        cmocka_unit_test(an_empty_histogram_has_no_quantiles),
        cmocka_unit_test(never_errs_by_more_than_a_32nd),
        cmocka_unit_test(keeps_values_beyond_its_range),
        cmocka_unit_test(merges_as_if_all_had_gone_into_one),
        cmocka_unit_test(a_shared_histogram_has_the_same_values),
        cmocka_unit_test(never_falls_as_the_fraction_rises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
