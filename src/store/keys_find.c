/*
 * Finding a hash: first the block where its entries begin, then they are taken from there on.
 *
 * With the fences in RAM that block is known. Before they are read it is searched for: hashes are
 * spread evenly, so the first guesses are by value, between what is known already; should they not
 * hit, the rest is halved, so that no table takes more than a few reads.
 */
#include "store/keys_private.h"

#include <errno.h>

enum { GUESSES_BY_VALUE = 4 };

struct search {
    const struct keys *keys;
    uint64_t hash;
    bool may_block;
    uint64_t block; /* what `bytes` are; UINT64_MAX: nothing */
    char bytes[KEYS_BLOCK_BYTES];
};

static int load(struct search *search, uint64_t block)
{
    int result;

    if (search->block == block)
        return 0;
    search->block = UINT64_MAX;
    result = keys_read_blocks(search->keys, block, 1, search->may_block, search->bytes);
    if (result == 0)
        search->block = block;
    return result;
}

/* Entries begin at the last block whose first hash is below, or in the next: the last of low..high
 * - 1 of which that is true; low where it is of none. */
static uint64_t first_by_fences(const uint64_t *fences, uint64_t blocks, uint64_t hash)
{
    uint64_t low = 0, high = blocks;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (fences[middle] < hash)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Known of the table so far: block `low` begins below the hash or is the first; `high` does not
 * begin below it, or is the end. What they begin with: from, to. */
struct range {
    uint64_t low, high, from, to;
};

/* A block in between, by the hash's share of the values. */
static uint64_t guess(const struct range *range, uint64_t hash)
{
    uint64_t width = range->to - range->from;
    unsigned __int128 share = hash < range->from ? 0 : hash - range->from;
    uint64_t at = width ? (uint64_t)(share * (range->high - range->low) / width) : 0;

    if (at >= range->high - range->low)
        at = range->high - range->low - 1;
    return range->low + at;
}

/* What the block at hand, `at`, says about the range. True: it is the one. */
static bool narrow(struct search *search, struct range *range, uint64_t at)
{
    size_t count = keys_block_entries(search->keys, at);
    uint64_t first = keys_get_entry(search->bytes, 0).hash;
    uint64_t last = keys_get_entry(search->bytes, count - 1).hash;

    if (first >= search->hash && at > 0) {
        range->high = at;
        range->to = first;
        return false;
    }
    range->low = at;
    range->from = first;
    return last >= search->hash;
}

static int first_by_guessing(struct search *search, uint64_t blocks, uint64_t *out)
{
    struct range range = {.high = blocks, .to = UINT64_MAX};
    uint64_t at = guess(&range, search->hash);

    for (int reads = 1;; reads++) {
        int result = load(search, at);

        if (result < 0)
            return result;
        if (narrow(search, &range, at) || range.high - range.low <= 1)
            break;
        at = reads < GUESSES_BY_VALUE ? guess(&range, search->hash)
                                      : range.low + (range.high - range.low) / 2;
        if (at == range.low) /* known already */
            at++;
    }
    *out = range.low;
    return 0;
}

/* Of the block at hand. True: there may be more in the next one. */
static bool take_entries(struct search *search, struct keys_entry *out, size_t max, size_t *found)
{
    size_t low = 0, high = keys_block_entries(search->keys, search->block), count = high;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (keys_get_entry(search->bytes, middle).hash < search->hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && *found < max; low++) {
        struct keys_entry entry = keys_get_entry(search->bytes, low);

        if (entry.hash != search->hash)
            return false;
        out[(*found)++] = entry;
    }
    return *found < max;
}

int keys_find(const struct keys *keys, uint64_t hash, bool may_block, struct keys_entry *out,
              size_t max)
{
    const struct keys_ram *ram = atomic_load_explicit(&keys->ram, memory_order_acquire);
    struct search search = {
        .keys = keys, .hash = hash, .may_block = may_block, .block = UINT64_MAX};
    uint64_t blocks = keys->shape.filter_at, at = 0;
    size_t found = 0;
    int result = 0;

    if (blocks == 0 || max == 0)
        return 0;
    if (ram)
        at = first_by_fences(ram->fences, blocks, hash);
    else
        result = first_by_guessing(&search, blocks, &at);
    for (; result == 0 && at < blocks; at++) {
        if (ram && ram->fences[at] > hash)
            break;
        result = load(&search, at);
        if (result == 0 && !take_entries(&search, out, max, &found))
            break;
    }
    return result < 0 ? result : (int)found;
}
