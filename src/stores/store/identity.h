/*
 * identity: the store and the shard that a file belongs to.
 *
 * The log's MANIFEST, the header of every log file, and every catalog contain an identity. Runs and
 * key tables are tied to their catalog by its secret seed. The identity reveals a part of a
 * directory that was put in place of another. Zeroed: no store, for tests. Does no I/O.
 */
#ifndef TARRY_STORE_IDENTITY_H
#define TARRY_STORE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { STORE_NAME_BYTES = 32, STORE_IDENTITY_BYTES = STORE_NAME_BYTES + 4 };

struct store_identity {
    char store[STORE_NAME_BYTES + 1]; /* its name in hex, see manifest.h */
    uint32_t shard;
};

static inline bool store_identity_equals(const struct store_identity *one,
                                         const struct store_identity *other)
{
    return one->shard == other->shard && strcmp(one->store, other->store) == 0;
}

/* Encodes the stored form: the name, padded with zeros, and the shard, little-endian. */
static inline void store_identity_encode(const struct store_identity *identity,
                                         char out[STORE_IDENTITY_BYTES])
{
    const size_t length = strnlen(identity->store, STORE_NAME_BYTES);

    memcpy(out, identity->store, length);
    memset(out + length, 0, STORE_NAME_BYTES - length);
    for (int i = 0; i < 4; i++)
        out[STORE_NAME_BYTES + i] = (char)(identity->shard >> (8 * i));
}

static inline struct store_identity store_identity_decode(const char bytes[STORE_IDENTITY_BYTES])
{
    struct store_identity identity = {0};

    memcpy(identity.store, bytes, STORE_NAME_BYTES);
    for (int i = 0; i < 4; i++)
        identity.shard |= (uint32_t)(unsigned char)bytes[STORE_NAME_BYTES + i] << (8 * i);
    return identity;
}

/* Returns whether the bytes are canonical: decoding and encoding them gives the same bytes. */
static inline bool store_identity_is_sound(const char bytes[STORE_IDENTITY_BYTES])
{
    const struct store_identity identity = store_identity_decode(bytes);
    char again[STORE_IDENTITY_BYTES];

    store_identity_encode(&identity, again);
    return memcmp(again, bytes, sizeof again) == 0;
}

#endif
