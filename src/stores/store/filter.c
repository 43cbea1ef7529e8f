#include "store/filter.h"

#include "base/pages.h"

enum {
    WORDS_A_BLOCK = FILTER_BLOCK_BYTES / 4,
    HASHES_A_BLOCK = FILTER_BLOCK_BYTES * 8 / FILTER_BITS_PER_HASH,
    FOLDABLE_BLOCKS_MIN = 1024,
    FOLDS_BLOCKS = 16,
    HUGE_BYTES_MIN = 2 << 20 /* a large page */
};

/* Multiplier that spreads 32 bits over 64; odd and without a pattern: digits of pi in base 16. */
static const uint64_t MULTIPLIER = 0x85a308d313198a2f;

static bool is_huge(const struct filter *filter)
{
    return filter_bytes(filter) >= HUGE_BYTES_MIN;
}

bool filter_init_blocks(struct filter *filter, uint64_t blocks)
{
    *filter = (struct filter){.blocks = blocks};
    if (blocks > 0 && blocks <= UINT32_MAX) /* a hash reaches no more blocks than that */
        filter->words = pages_take(filter_bytes(filter), is_huge(filter));
    if (!filter->words)
        *filter = (struct filter){0};
    return filter->words;
}

bool filter_init(struct filter *filter, uint64_t hashes)
{
    uint64_t blocks = hashes / HASHES_A_BLOCK + (hashes % HASHES_A_BLOCK != 0);

    if (blocks >= FOLDABLE_BLOCKS_MIN) /* so that it can be folded a few times */
        blocks = (blocks + FOLDS_BLOCKS - 1) / FOLDS_BLOCKS * FOLDS_BLOCKS;
    return filter_init_blocks(filter, blocks ? blocks : 1);
}

void filter_fini(struct filter *filter)
{
    pages_give(filter->words, filter_bytes(filter), is_huge(filter));
    *filter = (struct filter){0};
}

/* Returns the block of a hash. The high half of a hash selects the block, the low half one bit in
 * each of its words. */
static uint32_t *block_of(const struct filter *filter, uint64_t hash)
{
    return filter->words + ((hash >> 32) * filter->blocks >> 32) * WORDS_A_BLOCK;
}

/* Returns five bits per word, which select the word's bit. Uses one multiplication and no branch,
 * which matters if sixteen filters are queried in sequence. */
static uint64_t places_of(uint64_t hash)
{
    return (uint32_t)hash * MULTIPLIER >> (64 - 5 * WORDS_A_BLOCK);
}

void filter_put(struct filter *filter, uint64_t hash)
{
    uint64_t places = places_of(hash);
    uint32_t *block;

    if (!filter->words)
        return;
    block = block_of(filter, hash);
    for (int i = 0; i < WORDS_A_BLOCK; i++, places >>= 5)
        block[i] |= UINT32_C(1) << (places & 31);
}

bool filter_maybe(const struct filter *filter, uint64_t hash)
{
    uint64_t places = places_of(hash);
    const uint32_t *block;
    uint32_t all = 1;

    if (!filter->words)
        return true;
    block = block_of(filter, hash);
    for (int i = 0; i < WORDS_A_BLOCK; i++, places >>= 5)
        all &= block[i] >> (places & 31);
    return all;
}

/* Folds pairs of blocks. The blocks are in the order of the hashes: block i of a filter of half the
 * size corresponds to blocks 2 i and 2 i + 1. */
uint64_t filter_fold(struct filter *filter, uint64_t hashes)
{
    uint64_t blocks = filter->blocks;

    while (blocks % 2 == 0 && blocks / 2 >= hashes / HASHES_A_BLOCK + 1) {
        blocks /= 2;
        for (uint64_t i = 0; i < blocks * WORDS_A_BLOCK; i++) {
            uint64_t from = i / WORDS_A_BLOCK * 2 * WORDS_A_BLOCK + i % WORDS_A_BLOCK;

            filter->words[i] = filter->words[from] | filter->words[from + WORDS_A_BLOCK];
        }
    }
    return blocks;
}

void filter_prefetch(const struct filter *filter, uint64_t hash)
{
    if (filter->words)
        __builtin_prefetch(block_of(filter, hash));
}
