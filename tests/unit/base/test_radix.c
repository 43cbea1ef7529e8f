#include "base/radix.h"
#include "unit/claim.h"
#include "unit/seed.h"

static int compare(const void *a, const void *b)
{
    const struct radix_item *left = a, *right = b;

    if (left->high != right->high)
        return left->high < right->high ? -1 : 1;
    if (left->low != right->low)
        return left->low < right->low ? -1 : 1;
    return left->at < right->at ? -1 : left->at > right->at;
}

/* Few bits make many equal ones: their order is the one they came in. */
static uint64_t some_bits(struct random *random)
{
    uint64_t mask = random_next(random) & random_next(random) & random_next(random);

    return random_next(random) & (random_below(random, 2) ? mask : mask | mask << 8);
}

CLAIM(sorts_as_qsort_does)
{
    struct random random = seed_random("sorts_as_qsort_does");

    for (int round = 0; round < 200; round++) {
        size_t count = random_below(&random, round < 20 ? 3 : 3000);
        uint64_t high = some_bits(&random), low = some_bits(&random);
        struct radix_item *items = calloc(count + 1, sizeof *items);
        struct radix_item *wanted = calloc(count + 1, sizeof *wanted);

        assert_true(items && wanted);
        for (size_t i = 0; i < count; i++)
            wanted[i] = items[i] = (struct radix_item){
                .high = random_next(&random) & high, .low = random_next(&random) & low, .at = i};
        qsort(wanted, count, sizeof *wanted, compare);
        assert_true(radix_sort(items, count));
        for (size_t i = 0; i < count; i++) {
            assert_true(items[i].high == wanted[i].high && items[i].low == wanted[i].low);
            assert_int_equal(items[i].at, wanted[i].at);
        }
        free(items);
        free(wanted);
    }
}

CLAIMS_MAIN(NULL, NULL)
