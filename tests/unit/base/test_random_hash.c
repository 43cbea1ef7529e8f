#include "base/hash.h"
#include "base/random.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

CLAIM(gives_the_published_sequence)
{
    /* Of SplitMix64 from state 1234567. */
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
    struct random random = {.state = 1234567};

    for (size_t i = 0; i < COUNT_OF(expected); i++)
        assert_int_equal(random_next(&random), expected[i]);
}

CLAIM(never_reaches_its_bound)
{
    struct random random = seed_random("never_reaches_its_bound");

    assert_int_equal(random_below(&random, 0), 0);
    assert_int_equal(random_below(&random, 1), 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t bound = 1 + (random_next(&random) >> random_below(&random, 64)) / 2;
        assert_true(random_below(&random, bound) < bound);
    }
}

CLAIM(favours_no_value)
{
    enum { BOUND = 7, DRAWS = 700000 };
    struct random random = {.state = 42};
    int counts[BOUND] = {0};

    for (int i = 0; i < DRAWS; i++)
        counts[random_below(&random, BOUND)]++;
    for (int i = 0; i < BOUND; i++)
        assert_in_range(counts[i], DRAWS / BOUND - 1500, DRAWS / BOUND + 1500);
    /* Two thirds of all: a plain remainder would draw the lower half twice as often. */
    uint64_t bound = UINT64_C(0xaaaaaaaaaaaaaaaa), low = 0;
    for (int i = 0; i < 100000; i++)
        low += random_below(&random, bound) < bound / 2;
    assert_in_range(low, 49000, 51000);
}

CLAIM(draws_other_bytes_each_time)
{
    char bytes[2][1000] = {{0}};

    random_bytes(bytes[0], sizeof bytes[0]);
    random_bytes(bytes[1], sizeof bytes[1]);
    random_bytes(bytes[1], 0);
    assert_memory_not_equal(bytes[0], bytes[1], sizeof bytes[0]);
    assert_memory_not_equal(bytes[0] + 980, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    assert_int_not_equal(random_u64(), random_u64());
}

static bool same(struct hash128 a, struct hash128 b)
{
    return a.high == b.high && a.low == b.low;
}

CLAIM(hashes_as_xxh3_does)
{
    /* The value that XXH3's own tests give for no input. */
    assert_int_equal(hash_64("", 0), UINT64_C(0x2d06800538d394c2));
    assert_int_not_equal(hash_64("a", 1), hash_64("b", 1));
}

/* Data directories keep these hashes: they must not change from version to version. */
CLAIM(always_returns_the_same_hash)
{
    struct hash128 hash = hash_pair(slice_of("orders"), slice_of("order-1"), 42);

    assert_int_equal(hash.high, UINT64_C(0x2bfabe37813d1cd8));
    assert_int_equal(hash.low, UINT64_C(0x727f3fde72fa99e0));
}

CLAIM(pairs_have_different_hashes)
{
    struct slice a = slice_of("ab"), b = slice_of("c"), c = slice_of("a"), d = slice_of("bc");

    assert_true(same(hash_pair(a, b, 1), hash_pair(a, b, 1)));
    assert_false(same(hash_pair(a, b, 1), hash_pair(c, d, 1)));
    assert_false(same(hash_pair(a, b, 1), hash_pair(a, b, 2)));
    assert_false(same(hash_pair(a, b, 1), hash_pair(b, a, 1)));
    assert_false(same(hash_pair(a, (struct slice){0}, 1), hash_pair((struct slice){0}, a, 1)));
}

/* Shifting a byte from one side to the other while there is a zero byte between gives the same
 * joined bytes: long and short pairs can be compared. */
CLAIM(hashes_long_pairs_as_short_ones)
{
    struct random random = seed_random("hashes_long_pairs_as_short_ones");
    char bytes[1024];

    for (size_t len = 3; len < sizeof bytes; len++) {
        memset(bytes, 'x', sizeof bytes);
        size_t one = (size_t)random_below(&random, len), other = (size_t)random_below(&random, len);
        bytes[one] = bytes[other] = '\0';
        struct hash128 hash =
            hash_pair(slice_make(bytes, one), slice_make(bytes + one + 1, len - one - 1), len);
        struct hash128 again = hash_pair(slice_make(bytes, other),
                                         slice_make(bytes + other + 1, len - other - 1), len);
        assert_true(same(hash, again));
    }
}

CLAIMS_MAIN(NULL, NULL)
