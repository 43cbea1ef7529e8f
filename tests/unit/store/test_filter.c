#include "store/filter.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <string.h>

CLAIM(never_excludes_an_added_key)
{
    static const uint64_t counts[] = {0, 1, 15, 16, 17, 1000, 100000};
    struct random random = seed_random(__func__);

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct filter filter;
        struct random again = random;

        assert_true(filter_init(&filter, counts[i]));
        assert_true(filter_bytes(&filter) <= counts[i] * FILTER_BITS_PER_HASH / 8 + 16 * 32);
        for (uint64_t n = 0; n < counts[i]; n++)
            filter_put(&filter, random_next(&random));
        filter_put(&filter, 0);
        filter_put(&filter, UINT64_MAX);
        for (uint64_t n = 0; n < counts[i]; n++)
            assert_true(filter_maybe(&filter, random_next(&again)));
        assert_true(filter_maybe(&filter, 0));
        assert_true(filter_maybe(&filter, UINT64_MAX));
        filter_prefetch(&filter, 0);
        filter_fini(&filter);
    }
}

CLAIM(is_wrong_about_once_in_a_thousand)
{
    enum { HASHES = 500000, QUESTIONS = 2000000 };
    struct random random = seed_random(__func__);
    struct filter filter;
    int wrong = 0;

    assert_true(filter_init(&filter, HASHES));
    for (int i = 0; i < HASHES; i++)
        filter_put(&filter, random_next(&random));
    for (int i = 0; i < QUESTIONS; i++)
        wrong += filter_maybe(&filter, random_next(&random));
    print_message("false maybe: %.4f %%\n", 100.0 * wrong / QUESTIONS);
    assert_true(wrong < QUESTIONS * 0.0015);
    assert_true(wrong > QUESTIONS / 10000); /* else something else is measured */
    filter_fini(&filter);
}

CLAIM(an_empty_filter_returns_no)
{
    struct filter filter;

    assert_true(filter_init(&filter, 0));
    assert_int_equal(filter_bytes(&filter), FILTER_BLOCK_BYTES);
    assert_false(filter_maybe(&filter, 0));
    assert_false(filter_maybe(&filter, UINT64_MAX));
    filter_fini(&filter);
}

CLAIM(a_zeroed_filter_returns_maybe)
{
    struct filter filter = {0};

    filter_put(&filter, 7);
    filter_prefetch(&filter, 7);
    assert_true(filter_maybe(&filter, 8));
    assert_int_equal(filter_bytes(&filter), 0);
    filter_fini(&filter);
    filter_fini(&filter);
}

CLAIM(an_oversized_filter_is_rejected_and_returns_maybe)
{
    struct filter filter;

    assert_false(filter_init(&filter, UINT64_MAX));
    assert_true(filter_maybe(&filter, 1));
    assert_false(filter_init_blocks(&filter, 0));
    assert_false(filter_init_blocks(&filter, UINT64_MAX / 32));
    assert_true(filter_maybe(&filter, 1));
    filter_fini(&filter);
}

/* The content of a file is queried in the same way again. */
CLAIM(is_the_same_by_its_size)
{
    struct random random = seed_random(__func__);
    struct filter filter, again;

    assert_true(filter_init(&filter, 10000));
    assert_true(filter_init_blocks(&again, filter.blocks));
    for (int i = 0; i < 10000; i++)
        filter_put(&filter, random_next(&random));
    memcpy(again.words, filter.words, filter_bytes(&filter));
    for (int i = 0; i < 100000; i++) {
        uint64_t hash = random_next(&random);
        assert_int_equal(filter_maybe(&filter, hash), filter_maybe(&again, hash));
    }
    filter_fini(&filter);
    filter_fini(&again);
}

static double wrong_share(const struct filter *filter, struct random *random)
{
    int wrong = 0;

    for (int i = 0; i < 1000000; i++)
        wrong += filter_maybe(filter, random_next(random));
    return wrong / 1e6;
}

CLAIM(folded_it_is_smaller_and_as_good)
{
    static const uint64_t counts[] = {0, 1, 6000, 6250, 12499, 49000, 51000, 100000};
    struct random random = seed_random(__func__);

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct filter filter, folded;
        struct random again = random;
        uint64_t blocks;

        assert_true(filter_init(&filter, 100000));
        for (uint64_t n = 0; n < counts[i]; n++)
            filter_put(&filter, random_next(&random));
        blocks = filter_fold(&filter, counts[i]);
        assert_true(blocks == filter.blocks || blocks * 16 >= counts[i]);
        assert_true(blocks * 16 <= counts[i] * 2 + 32 * 16 || blocks <= filter.blocks / 16);
        assert_true(filter_init_blocks(&folded, blocks));
        memcpy(folded.words, filter.words, filter_bytes(&folded));
        for (uint64_t n = 0; n < counts[i]; n++)
            assert_true(filter_maybe(&folded, random_next(&again)));
        assert_true(wrong_share(&folded, &random) < 0.0016);
        filter_fini(&folded);
        filter_fini(&filter);
    }
}

CLAIM(its_blocks_rise_with_the_hashes)
{
    struct filter filter;
    size_t written = 0;

    assert_true(filter_init(&filter, 4096));
    for (uint64_t i = 0; i < 4096; i++) {
        filter_put(&filter, i << 52);
        for (size_t word = 0; word < written; word++) /* nothing comes before the block at hand */
            assert_true(filter.words[word] || word + 8 >= written);
        while (written < filter_bytes(&filter) / 4 && filter.words[written])
            written++;
    }
    assert_int_equal(written, filter_bytes(&filter) / 4);
    filter_fini(&filter);
}

CLAIMS_MAIN(NULL, NULL)
