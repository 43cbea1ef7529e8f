/*
 * pack: arguments and results as one byte array, so that a call crosses between Java and C once. Numbers are little-endian and
 * unaligned; a text is its length as int32 (-1: null), its bytes and a NUL. Pack.java is the other side.
 */
#ifndef TARRY_JAVA_PACK_H
#define TARRY_JAVA_PACK_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct unpack {
    const char *at, *end;
};

static inline const void *unpack_bytes(struct unpack *from, size_t bytes)
{
    const char *at = from->at;
    assert(bytes <= (size_t)(from->end - from->at)); /* written by Pack.java */
    from->at += bytes;
    return at;
}

static inline int32_t unpack_int(struct unpack *from)
{
    int32_t value;
    memcpy(&value, unpack_bytes(from, sizeof value), sizeof value);
    return value;
}

static inline int64_t unpack_long(struct unpack *from)
{
    int64_t value;
    memcpy(&value, unpack_bytes(from, sizeof value), sizeof value);
    return value;
}

/* Lives as long as what it is unpacked from. NULL: null. */
static inline const char *unpack_text(struct unpack *from, size_t *bytes)
{
    int32_t length = unpack_int(from);
    *bytes = length < 0 ? 0 : (size_t)length;
    return length < 0 ? NULL : unpack_bytes(from, *bytes + 1);
}

/* Counts while `at` is NULL, and then writes what was counted. */
struct pack {
    char *at;
    size_t bytes;
};

static inline void pack_bytes(struct pack *into, const void *from, size_t bytes)
{
    if (into->at && bytes)
        memcpy(into->at + into->bytes, from, bytes);
    into->bytes += bytes;
}

static inline void pack_int(struct pack *into, int32_t value)
{
    pack_bytes(into, &value, sizeof value);
}

static inline void pack_long(struct pack *into, int64_t value)
{
    pack_bytes(into, &value, sizeof value);
}

static inline void pack_text(struct pack *into, const char *from, size_t bytes)
{
    pack_int(into, (int32_t)bytes);
    pack_bytes(into, from, bytes);
}

#endif
