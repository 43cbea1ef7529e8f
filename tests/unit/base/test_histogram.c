#include "base/histogram.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <string.h>

CLAIM(counts_small_values_exactly)
{
    struct histogram histogram = {0};

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

CLAIM(an_empty_histogram_has_no_quantiles)
{
    struct histogram histogram = {0};

    assert_int_equal(histogram_at(&histogram, 0.99), 0);
    assert_int_equal(histogram_count_to(&histogram, 100), 0);
}

CLAIM(never_errs_by_more_than_a_32nd)
{
    struct random random = seed_random("never_errs_by_more_than_a_32nd");

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

CLAIM(keeps_values_beyond_its_range)
{
    struct histogram histogram = {0};

    histogram_add(&histogram, 1);
    histogram_add(&histogram, UINT64_MAX / 2);
    assert_int_equal(histogram_at(&histogram, 1), UINT64_MAX / 2);
    assert_int_equal(histogram_count_to(&histogram, UINT64_C(1) << 40), 1);
    assert_int_equal(histogram_count_to(&histogram, UINT64_MAX), 2);
}

CLAIM(merges_as_if_all_had_gone_into_one)
{
    struct random random = seed_random("merges_as_if_all_had_gone_into_one");
    static struct histogram all, parts[3];

    for (int i = 0; i < 30000; i++) {
        uint64_t value = random_next(&random) >> random_below(&random, 64);
        histogram_add(&all, value);
        histogram_add(&parts[i % 3], value);
    }
    histogram_merge(&parts[0], &parts[1]);
    histogram_merge(&parts[0], &parts[2]);
    assert_memory_equal(&parts[0], &all, sizeof all);
}

CLAIM(a_shared_histogram_has_the_same_values)
{
    struct random random = seed_random("a_shared_histogram_has_the_same_values");
    static struct histogram plain, read;
    static struct shared_histogram shared;

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

CLAIM(never_falls_as_the_fraction_rises)
{
    struct random random = seed_random("never_falls_as_the_fraction_rises");
    struct histogram histogram = {0};
    uint64_t last = 0;

    for (int i = 0; i < 10000; i++)
        histogram_add(&histogram, random_next(&random) >> random_below(&random, 64));
    for (int i = 0; i <= 1000; i++) {
        uint64_t at = histogram_at(&histogram, i / 1000.0);
        assert_true(at >= last && at <= histogram.max);
        assert_true((double)histogram_count_to(&histogram, at) >= i / 1000.0 * 10000 - 1e-6);
        last = at;
    }
}

CLAIMS_MAIN(NULL, NULL)
