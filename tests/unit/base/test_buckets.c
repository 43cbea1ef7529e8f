#include "base/buckets.h"

#include "unit/cases.h"
#include "unit/claim.h"

static const struct bucket_bounds bounds = {.units = 1000, .count = 3, .at = {10, 100, 1000}};

CLAIM(a_value_is_in_the_first_bucket_that_reaches_it)
{
    struct buckets buckets = {0};
    buckets_add(&buckets, &bounds, 0);
    buckets_add(&buckets, &bounds, 10);
    buckets_add(&buckets, &bounds, 11);
    buckets_add(&buckets, &bounds, 1000);
    buckets_add(&buckets, &bounds, 1001);
    assert_int_equal(counter_get(&buckets.counts[0]), 2);
    assert_int_equal(counter_get(&buckets.counts[1]), 1);
    assert_int_equal(counter_get(&buckets.counts[2]), 1);
    assert_int_equal(counter_get(&buckets.counts[3]), 1);
    assert_int_equal(counter_get(&buckets.sum), 2022);
    assert_int_equal(buckets_total(&buckets), 5);
}

CLAIM(merged_buckets_equal_one_histogram)
{
    struct buckets one = {0}, other = {0};
    buckets_add(&one, &bounds, 5);
    buckets_add(&other, &bounds, 5);
    buckets_add(&other, &bounds, 5000);
    buckets_merge(&one, &other);
    assert_int_equal(buckets_total(&one), 3);
    assert_int_equal(counter_get(&one.counts[0]), 2);
    assert_int_equal(counter_get(&one.sum), 5010);
}

CLAIM(a_quantile_is_interpolated_within_its_bucket)
{
    struct buckets buckets = {0};
    assert_int_equal(buckets_at(&buckets, &bounds, 0.5), 0);
    for (int i = 0; i < 50; i++)
        buckets_add(&buckets, &bounds, 3);
    for (int i = 0; i < 50; i++)
        buckets_add(&buckets, &bounds, 70);
    assert_int_equal(buckets_at(&buckets, &bounds, 0.25), 5);
    assert_int_equal(buckets_at(&buckets, &bounds, 0.5), 10);
    assert_int_equal(buckets_at(&buckets, &bounds, 0.75), 55);
    assert_int_equal(buckets_at(&buckets, &bounds, 1), 100);
    for (int i = 0; i < 1000; i++)
        buckets_add(&buckets, &bounds, 99999);
    assert_int_equal(buckets_at(&buckets, &bounds, 0.99), 1000); /* beyond all bounds */
}

CLAIMS_MAIN(NULL, NULL)
