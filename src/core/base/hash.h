/* hash: XXH3 as used in tarry. hash_pair is seeded (local store: with the seed of the data
 * directory); hash_64 is not, so never rely on it against chosen keys. Pure. */
#ifndef TARRY_BASE_HASH_H
#define TARRY_BASE_HASH_H

#include "base/slice.h"

#include <stdint.h>

struct hash128 {
    uint64_t high, low;
};

/* Returns XXH3 of the bytes, without a seed: the same on every server and after every restart. */
uint64_t hash_64(const void *bytes, size_t len);

/* Returns the hash of a, a zero byte, b. Identifies a job by topic and id (neither contains a zero
 * byte). */
struct hash128 hash_pair(struct slice a, struct slice b, uint64_t seed);

/* Returns the share of a hash out of `count`. Uses its high half, so the low half is independent of the share. */
static inline uint32_t hash_share(struct hash128 hash, uint32_t count)
{
    return (uint32_t)(((hash.high >> 32) * count) >> 32);
}

#endif
