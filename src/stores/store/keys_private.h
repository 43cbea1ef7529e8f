/*
 * keys_private: the stored form of a key table.
 *
 * Blocks of KEYS_BLOCK_BYTES, each ending with its own XXH3, seeded so that a block is valid only
 * at its position in its file in its data directory:
 *   1. entries, KEYS_BLOCK_ENTRIES per block: u64 hash · u32 run · u32 slot, the rest zeros
 *   2. the words of the filter, u32 each, consecutively
 *   3. the fences: the first hash of each block of entries, u64 each
 *   4. one block, the footer: MAGIC · u32 format · u32 number · u64 entries · u64 blocks of the
 *      filter
 * Little-endian. The footer thus determines the exact size of the file.
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
    KEYS_IO_BLOCKS = 64, /* read or written at a time in sequential access */
    KEYS_IO_BYTES = KEYS_IO_BLOCKS * KEYS_BLOCK_BYTES,
};

/* Contents of a footer, and the start of each part, in blocks. */
struct keys_shape {
    uint64_t entries, filter_blocks;
    uint64_t filter_at, fences_at, footer_at;
};

/* Parts that are read into RAM, both together. */
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
    struct keys_ram *_Atomic ram; /* NULL until read; then constant */
};

struct keys_shape keys_shape_of(uint64_t entries, uint64_t filter_blocks);
void keys_sign(char *block, uint64_t seed, uint32_t number, uint64_t index);
void keys_put_entry(char *block, size_t index, const struct keys_entry *entry);
struct keys_entry keys_get_entry(const char *block, size_t index);
/* Compares by hash, run and slot. */
static inline int keys_compare(const struct keys_entry *a, const struct keys_entry *b)
{
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}
void keys_put_footer(char *block, uint64_t seed, uint32_t number, const struct keys_shape *shape);
/* Returns 0, -EBADMSG, or -ENOTSUP if a newer program wrote the table. */
int keys_get_footer(const char *block, uint64_t seed, uint32_t number, int64_t file_bytes,
                    struct keys_shape *out);

/* Reads complete blocks from `first` on and checks their checksums. Returns 0 or a negative
 * errno. */
int keys_read_blocks(const struct keys *keys, uint64_t first, size_t count, bool may_block,
                     char *into);

#endif
