#include "store/filter.h"

#include "base/pages.h"

enum {
    WORDS_A_BLOCK = FILTER_BLOCK_BYTES / 4,
    HUGE_BYTES_MIN = 8 << 20 /* below that, what a large page wastes at the end is too much */
};

/* One bit in each word of a block. Odd numbers without a pattern: the digits of pi in base 16. */
static const uint32_t MULTIPLIERS[WORDS_A_BLOCK] = {0x243f6a89, 0x85a308d3, 0x13198a2f, 0x03707345,
                                                    0xa4093823, 0x299f31d1, 0x082efa99, 0xec4e6c89};

static bool is_huge(const struct filter *filter)
{
    return filter_bytes(filter) >= HUGE_BYTES_MIN;
}

bool filter_init_blocks(struct filter *filter, uint64_t blocks)
{
    *filter = (struct filter){.blocks = blocks};
    if (blocks > 0 && blocks <= UINT32_MAX) /* more than that no hash would reach */
        filter->words = pages_take(filter_bytes(filter), is_huge(filter));
    if (!filter->words)
        *filter = (struct filter){0};
    return filter->words;
}

bool filter_init(struct filter *filter, uint64_t hashes)
{
    uint64_t hashes_a_block = FILTER_BLOCK_BYTES * 8 / FILTER_BITS_PER_HASH;

    return filter_init_blocks(filter, hashes / hashes_a_block + (hashes % hashes_a_block != 0) +
                                          (hashes == 0));
}

void filter_fini(struct filter *filter)
{
    pages_give(filter->words, filter_bytes(filter), is_huge(filter));
    *filter = (struct filter){0};
}

/* The high half of a hash chooses the block, the low half the bits in it. */
static uint32_t *block_of(const struct filter *filter, uint64_t hash)
{
    return filter->words + ((hash >> 32) * filter->blocks >> 32) * WORDS_A_BLOCK;
}

static uint32_t bit_of(uint64_t hash, int word)
{
    return UINT32_C(1) << ((uint32_t)hash * MULTIPLIERS[word] >> 27);
}

void filter_put(struct filter *filter, uint64_t hash)
{
    uint32_t *block;

    if (!filter->words)
        return;
    block = block_of(filter, hash);
    for (int i = 0; i < WORDS_A_BLOCK; i++)
        block[i] |= bit_of(hash, i);
}

bool filter_maybe(const struct filter *filter, uint64_t hash)
{
    const uint32_t *block;
    uint32_t missing = 0;

    if (!filter->words)
        return true;
    block = block_of(filter, hash);
    for (int i = 0; i < WORDS_A_BLOCK; i++)
        missing |= bit_of(hash, i) & ~block[i];
    return missing == 0;
}

void filter_prefetch(const struct filter *filter, uint64_t hash)
{
    if (filter->words)
        __builtin_prefetch(block_of(filter, hash));
}
