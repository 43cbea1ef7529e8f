/* hex: hexadecimal digits. Written in lower case. Numbers are read in lower case only, so that a
 * number has one spelling. Pure. */
#ifndef TARRY_BASE_HEX_H
#define TARRY_BASE_HEX_H

#include "base/slice.h"

#include <endian.h>
#include <stdint.h>

static inline char hex_digit(unsigned value)
{
    return "0123456789abcdef"[value & 15];
}

/* Returns the value of a digit in either case, or -1. */
static inline int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char small = (char)(digit | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/* Converts eight digits at a time, in the bytes of a word: leases are written and read with every
 * job. */
static inline uint64_t hex_spread(uint32_t value)
{
    const uint64_t low_bytes = UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t word = value;
    word = (word << 16 | word) & UINT64_C(0x0000ffff0000ffff);
    word = (word << 8 | word) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word << 4 | word) & low_bytes;
    /* Adding 6 sets bit 4 of a byte above 9; letters are 39 above the digits. */
    uint64_t letters = (word + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    word += letters * 39 + UINT64_C(0x3030303030303030);
    return htobe64(word); /* the first digit is the highest */
}

/* Writes the last `digits` digits of a number, with leading zeroes. */
static inline void hex_emit_u64(char *out, uint64_t value, size_t digits)
{
    for (; digits >= 8; digits -= 8, value >>= 32) {
        uint64_t word = hex_spread((uint32_t)value);
        memcpy(out + digits - 8, &word, 8);
    }
    for (; digits > 0; digits--, value >>= 4)
        out[digits - 1] = hex_digit((unsigned)value);
}

/* Reads eight lower-case digits. Returns false if one is invalid. */
static inline bool hex_gather(const char *text, uint32_t *out)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t word;
    memcpy(&word, text, 8);
    if (word & tops)
        return false;
    /* The top bit of each byte means: at least '0', above '9', at least 'a', above 'f'. */
    uint64_t from_0 = word + ones * (0x80 - '0'), past_9 = word + ones * (0x7f - '9');
    uint64_t from_a = word + ones * (0x80 - 'a'), past_f = word + ones * (0x7f - 'f');
    if ((((from_0 & ~past_9) | (from_a & ~past_f)) & tops) != tops)
        return false;
    word -= ones * '0' + ((from_a & tops) >> 7) * 39;
    word = be64toh(word);
    word = (word | word >> 4) & UINT64_C(0x00ff00ff00ff00ff);
    word = (word | word >> 8) & UINT64_C(0x0000ffff0000ffff);
    *out = (uint32_t)(word | word >> 16);
    return true;
}

/* Reads exactly `digits` digits, at most 16. Sets *out on success only. */
static inline bool hex_parse_u64(const char *text, size_t digits, uint64_t *out)
{
    uint64_t value = 0;
    uint32_t eight;
    for (; digits >= 8; digits -= 8, text += 8) {
        if (!hex_gather(text, &eight))
            return false;
        value = value << 32 | eight;
    }
    for (; digits > 0; digits--, text++) {
        int digit = *text >= 'A' && *text <= 'F' ? -1 : hex_value(*text);
        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *out = value;
    return true;
}

/* Reads exactly `count` bytes, two digits each. On false, `out` may be partly written. */
static inline bool hex_parse_bytes(struct slice text, void *out, size_t count)
{
    bool is_good = text.len == 2 * count;
    uint64_t byte;
    for (size_t i = 0; is_good && i < count; i++)
        if ((is_good = hex_parse_u64(text.at + 2 * i, 2, &byte)))
            ((unsigned char *)out)[i] = (unsigned char)byte;
    return is_good;
}

/* Writes two digits for each byte. */
static inline void hex_emit_bytes(char *out, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hex_emit_u64(out + 2 * i, ((const unsigned char *)bytes)[i], 2);
}

#endif
