/*
 * filter: tests whether a hash is in a set. A negative answer is certain; about one positive answer
 * in a thousand is wrong. Does no I/O.
 *
 * A split block Bloom filter (Putze, Sanders, Singler 2007) with 16 bits per hash: one cache line
 * per query. The order of the blocks follows that of the hashes, so a filter built from sorted
 * hashes is written sequentially.
 *
 * Insertion and queries must not run concurrently. Once the filter is complete, any thread may
 * query it.
 */
#ifndef TARRY_STORE_FILTER_H
#define TARRY_STORE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILTER_BITS_PER_HASH = 16, FILTER_BLOCK_BYTES = 32 };

struct filter {
    uint32_t *words; /* owned, aligned to a block; NULL: every query returns "maybe" */
    uint64_t blocks;
};

/* Initializes for `hashes` hashes. Returns false if out of memory; then every query returns
 * "maybe". */
bool filter_init(struct filter *filter, uint64_t hashes);
/* Initializes by size, for a filter that is read from a file. */
bool filter_init_blocks(struct filter *filter, uint64_t blocks);
/* Frees the words. Also accepts a zeroed filter. */
void filter_fini(struct filter *filter);
void filter_put(struct filter *filter, uint64_t hash);
bool filter_maybe(const struct filter *filter, uint64_t hash);
/* Folds a filter that received fewer hashes than it was made for into its first blocks, by halves,
 * as long as they suffice for `hashes`. Returns the number of those blocks: a filter of that size
 * with these words. Only filter_fini may be called on this filter afterwards. */
uint64_t filter_fold(struct filter *filter, uint64_t hashes);
/* Prefetches the memory that a later filter_maybe will read. */
void filter_prefetch(const struct filter *filter, uint64_t hash);
static inline size_t filter_bytes(const struct filter *filter)
{
    return (size_t)filter->blocks * FILTER_BLOCK_BYTES;
}

#endif
