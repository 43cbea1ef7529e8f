#include "base/hash.h"

/* Inlined: keys are a few dozen bytes, so a call through the library's table would cost as much as
 * the hashing. Inlining also allows the streaming state to be on the stack. */
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PAIR_BYTES_USUAL = 512 };

uint64_t hash_64(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}

static XXH128_hash_t hash_pair_long(struct slice a, struct slice b, uint64_t seed)
{
    XXH3_state_t state;

    XXH3_INITSTATE(&state);
    XXH3_128bits_reset_withSeed(&state, seed);
    XXH3_128bits_update(&state, a.at, a.len);
    XXH3_128bits_update(&state, "", 1);
    XXH3_128bits_update(&state, b.at, b.len);
    return XXH3_128bits_digest(&state);
}

struct hash128 hash_pair(struct slice a, struct slice b, uint64_t seed)
{
    char pair[PAIR_BYTES_USUAL];
    XXH128_hash_t hash;

    if (a.len < sizeof pair && b.len < sizeof pair - a.len) {
        if (a.len > 0)
            memcpy(pair, a.at, a.len);
        pair[a.len] = '\0';
        if (b.len > 0)
            memcpy(pair + a.len + 1, b.at, b.len);
        hash = XXH3_128bits_withSeed(pair, a.len + 1 + b.len, seed);
    } else {
        hash = hash_pair_long(a, b, seed);
    }
    return (struct hash128){.high = hash.high64, .low = hash.low64};
}
