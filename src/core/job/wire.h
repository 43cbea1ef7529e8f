/*
 * wire: the primitives of records: bytes, fixed little-endian words, LEB128 varints, counted runs
 * of bytes. Pure.
 *
 * Putting relies on the caller for room. Taking trusts nothing: the first invalid value sets `bad`,
 * and from then on every taken value is zero or empty, so a decoder checks once, at its end.
 * Varints must have the shortest form, so that a value has one spelling.
 */
#ifndef TARRY_JOB_WIRE_H
#define TARRY_JOB_WIRE_H

#include "base/slice.h"

#include <assert.h>
#include <endian.h>
#include <stdint.h>

enum { WIRE_VARINT_BYTES_MAX = 10 };

static inline char *wire_put_byte(char *at, unsigned value)
{
    *at = (char)(unsigned char)value;
    return at + 1;
}

static inline char *wire_put_u32(char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

static inline char *wire_put_u64(char *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

static inline char *wire_put_varint(char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        at = wire_put_byte(at, (unsigned)(value & 0x7f) | 0x80);
    return wire_put_byte(at, (unsigned)value);
}

/* Writes a time or duration. Negative ones have no stored form. */
static inline char *wire_put_ms(char *at, int64_t ms)
{
    assert(ms >= 0);
    return wire_put_varint(at, (uint64_t)ms);
}

static inline char *wire_put_bytes(char *at, struct slice bytes)
{
    if (bytes.len)
        memcpy(at, bytes.at, bytes.len);
    return at + bytes.len;
}

/* Writes the length, then the bytes. */
static inline char *wire_put_text(char *at, struct slice text, size_t bytes_max)
{
    assert(text.len <= bytes_max);
    return wire_put_bytes(wire_put_varint(at, text.len), text);
}

struct wire_in {
    const unsigned char *at, *end;
    bool bad;
};

static inline struct wire_in wire_in_make(struct slice bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.at;

    return (struct wire_in){.at = at, .end = bytes.len ? at + bytes.len : at};
}

static inline size_t wire_left(const struct wire_in *in)
{
    return (size_t)(in->end - in->at);
}

static inline void wire_fail(struct wire_in *in)
{
    in->bad = true;
    in->at = in->end;
}

static inline bool wire_need(struct wire_in *in, size_t bytes)
{
    if (wire_left(in) >= bytes)
        return true;
    wire_fail(in);
    return false;
}

static inline unsigned wire_take_byte(struct wire_in *in)
{
    return wire_need(in, 1) ? *in->at++ : 0;
}

static inline uint32_t wire_take_u32(struct wire_in *in)
{
    uint32_t value;

    if (!wire_need(in, sizeof value))
        return 0;
    memcpy(&value, in->at, sizeof value);
    in->at += sizeof value;
    return le32toh(value);
}

static inline uint64_t wire_take_u64(struct wire_in *in)
{
    uint64_t value;

    if (!wire_need(in, sizeof value))
        return 0;
    memcpy(&value, in->at, sizeof value);
    in->at += sizeof value;
    return le64toh(value);
}

/* Reads a value of at least `least` and at most `most`. */
static inline uint64_t wire_take_varint(struct wire_in *in, uint64_t least, uint64_t most)
{
    uint64_t value = 0;
    unsigned shift = 0, byte;

    do {
        byte = wire_take_byte(in);
        if (shift == 63 && byte > 1) /* more than 64 bits */
            wire_fail(in);
        value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) && !in->bad);
    if ((byte == 0 && shift > 7) || value < least || value > most)
        wire_fail(in);
    return in->bad ? 0 : value;
}

static inline int64_t wire_take_ms(struct wire_in *in, int64_t least)
{
    return (int64_t)wire_take_varint(in, (uint64_t)least, INT64_MAX);
}

static inline struct slice wire_take_bytes(struct wire_in *in, size_t bytes)
{
    struct slice taken = {0};

    if (wire_need(in, bytes)) {
        taken = slice_make(in->at, bytes);
        if (bytes) /* nothing may be taken from no bytes at all, whose address is NULL */
            in->at += bytes;
    }
    return taken;
}

static inline struct slice wire_take_text(struct wire_in *in, size_t least, size_t most)
{
    return wire_take_bytes(in, wire_take_varint(in, least, most));
}

#endif
