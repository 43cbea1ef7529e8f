/*
 * keys_private: the stored form of a table of keys.
 *
 * Blocks of KEYS_BLOCK_BYTES, each with XXH3 of itself at its end, seeded so that a block is sound
 * only in its place of its file of its data directory:
 *   1. entries, KEYS_BLOCK_ENTRIES a block: u64 hash · u32 run · u32 slot, the rest zeros
 *   2. the filter's words, u32 each, one after the other
 *   3. the fences: the first hash of each block of entries, u64 each
 *   4. one block, the footer: MAGIC · u32 format · u32 number · u64 entries · u64 blocks of the
 *      filter
 * Little-endian. So the footer tells the size of the file to the byte.
 */
#ifndef TARRY_STORE_KEYS_PRIVATE_H
#define TARRY_STORE_KEYS_PRIVATE_H

#include "store/keys.h"

#include <limits.h>
#include <stdatomic.h>

enum {
    KEYS_FORMAT = 1,
    KEYS_BLOCK_BYTES = 4096,
    KEYS_SUM_AT = KEYS_BLOCK_BYTES - 8,
    KEYS_ENTRY_BYTES = 16,
    KEYS_BLOCK_ENTRIES = KEYS_SUM_AT / KEYS_ENTRY_BYTES,
    KEYS_IO_BLOCKS = 64, /* read or written at once where it goes from start to end */
    KEYS_IO_BYTES = KEYS_IO_BLOCKS * KEYS_BLOCK_BYTES,
};

/* What a footer says, and where the parts begin, in blocks. */
struct keys_shape {
    uint64_t entries, filter_blocks;
    uint64_t filter_at, fences_at, footer_at;
};

/* What is read to RAM, all at once. */
struct keys_ram {
    struct filter filter;
    uint64_t *fences;
};

struct keys {
    const struct fs *fs;
    int fd;
    uint32_t number;
    uint64_t seed;
    struct keys_shape shape;
    struct keys_ram *_Atomic ram; /* NULL until read; then it stays */
};

struct keys_shape keys_shape_of(uint64_t entries, uint64_t filter_blocks);
void keys_sign(char *block, uint64_t seed, uint32_t number, uint64_t index);
void keys_put_entry(char *block, size_t index, const struct keys_entry *entry);
struct keys_entry keys_get_entry(const char *block, size_t index);
/* By hash, run, slot. */
static inline int keys_compare(const struct keys_entry *a, const struct keys_entry *b)
{
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}
void keys_put_footer(char *block, uint64_t seed, uint32_t number, const struct keys_shape *shape);
/* 0, -EBADMSG, or -ENOTSUP: made by a newer program. */
int keys_get_footer(const char *block, uint64_t seed, uint32_t number, int64_t file_bytes,
                    struct keys_shape *out);

/* Whole blocks from `first` on, their sums checked. 0 or negative errno. */
int keys_read_blocks(const struct keys *keys, uint64_t first, size_t count, bool may_block,
                     char *into);

#endif
