/* hex: hexadecimal digits. Written in small letters; numbers are read in small letters alone, so that
 * what was written has one spelling. Pure. */
#ifndef TARRY_BASE_HEX_H
#define TARRY_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline char hex_digit(unsigned value)
{
    return "0123456789abcdef"[value & 15];
}

/* Of a digit in letters of either size, or -1. */
static inline int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char small = (char)(digit | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/* The last so many digits of a number, zeroes in front. */
static inline void hex_emit_u64(char *out, uint64_t value, size_t digits)
{
    for (size_t i = digits; i > 0; i--, value >>= 4)
        out[i - 1] = hex_digit((unsigned)value);
}

/* Exactly so many digits, at most 16; *out is written on success only. */
static inline bool hex_parse_u64(const char *text, size_t digits, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : hex_value(text[i]);
        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *out = value;
    return true;
}

/* Two digits a byte. */
static inline void hex_emit_bytes(char *out, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hex_emit_u64(out + 2 * i, ((const unsigned char *)bytes)[i], 2);
}

#endif
