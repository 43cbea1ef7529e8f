/*
 * filter: is a hash among those put in? "No" is certain, "maybe" is wrong about once in a thousand.
 * Pure but for memory.
 *
 * A split block Bloom filter (Putze, Sanders, Singler 2007) of 16 bits a hash: one cache line a
 * question. The blocks' order follows the hashes', so one built from sorted hashes is written from
 * its start to its end.
 *
 * Putting in and asking from two threads at once is not for it; once complete any thread may ask.
 */
#ifndef TARRY_STORE_FILTER_H
#define TARRY_STORE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILTER_BITS_PER_HASH = 16, FILTER_BLOCK_BYTES = 32 };

struct filter {
    uint32_t *words; /* own memory, aligned to a block; NULL: everything is "maybe" */
    uint64_t blocks;
};

/* For so many hashes. False: out of memory; everything is then "maybe". */
bool filter_init(struct filter *filter, uint64_t hashes);
/* The same by its size, for one that is read from a file. */
bool filter_init_blocks(struct filter *filter, uint64_t blocks);
void filter_fini(struct filter *filter); /* zeroed ones too */
void filter_put(struct filter *filter, uint64_t hash);
bool filter_maybe(const struct filter *filter, uint64_t hash);
/* For one that got fewer hashes than it was made for: folds it into its first blocks, by halves, as
 * long as these are enough for so many. Returns how many blocks these are: a filter of that size
 * with these words. This one is good for nothing but filter_fini then. */
uint64_t filter_fold(struct filter *filter, uint64_t hashes);
/* Asks for the memory a later filter_maybe will touch. */
void filter_prefetch(const struct filter *filter, uint64_t hash);
static inline size_t filter_bytes(const struct filter *filter)
{
    return (size_t)filter->blocks * FILTER_BLOCK_BYTES;
}

#endif
