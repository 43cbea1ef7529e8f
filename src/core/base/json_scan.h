/*
 * json_scan: code shared by reading and writing JSON: runs of plain bytes and UTF-8 sequences.
 * Pure. Private to json_*.c.
 */
#ifndef TARRY_BASE_JSON_SCAN_H
#define TARRY_BASE_JSON_SCAN_H

#include "base/json_read.h"

/* Returns a word in which the top bit of a byte means "not plain in a string". A subtraction's borrow can
 * corrupt only the bytes after a true hit, so use only the first hit. */
static inline uint64_t json_special_bytes(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
    return ((quote - ones) | (backslash - ones) | (word - ones * ' ') | word) & ones * 0x80;
}

/* Returns the first byte from `at` on that is not plain in a string (a quote, a backslash, a
 * control byte, or not ASCII), else `end`. Works in steps of eight bytes. */
static inline const char *json_plain_end(const char *at, const char *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const char *first = at;
    uint64_t word, hits;
    for (; end - at >= 8; at += 8) {
        memcpy(&word, at, sizeof word);
        hits = json_special_bytes(word);
        if (hits)
            return at + (__builtin_ctzll(hits) >> 3);
    }
    /* The rest together with bytes before it, which are plain. */
    if (at < end && end - first >= 8) {
        memcpy(&word, end - 8, sizeof word);
        hits = json_special_bytes(word);
        return hits ? end - 8 + (__builtin_ctzll(hits) >> 3) : end;
    }
#endif
    while (at < end && *at != '"' && *at != '\\' && (signed char)*at >= ' ')
        at++;
    return at;
}

/* Returns the first quote or backslash from `at` on, else `end`. Works like json_plain_end, but
 * bytes outside ASCII are not hits. */
static inline const char *json_quote_end(const char *at, const char *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t ones = UINT64_C(0x0101010101010101);
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
        uint64_t hits = ((quote - ones) | (backslash - ones)) & ~word & ones * 0x80;
        if (hits)
            return at + (__builtin_ctzll(hits) >> 3);
        at += 8;
    }
#endif
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* Returns the first byte from `at` on that is not ASCII, else `end`. */
static inline const char *json_ascii_end(const char *at, const char *end)
{
    uint64_t word;

    for (; end - at >= 8; at += 8) {
        memcpy(&word, at, sizeof word);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (at < end && (signed char)*at >= 0)
        at++;
    return at;
}

static inline const char *json_space_end(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* Returns the kind of a value that begins with `byte`. */
static inline enum json_kind json_kind_of(char byte)
{
    switch (byte) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

/* Returns the length of the well-formed UTF-8 sequence at `at` (1 to 4 bytes), or 0 if it is
 * malformed. The ranges are those of the grammar in RFC 3629 section 4: no overlong forms, no
 * surrogates, nothing above U+10FFFF. */
static inline size_t json_utf8_len(const char *at, const char *end)
{
    const unsigned char *byte = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    unsigned char least = 0x80, most = 0xbf;

    if (left == 0 || byte[0] < 0x80)
        return left > 0;
    if (byte[0] < 0xc2 || byte[0] > 0xf4)
        return 0;
    size_t len = byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    if (left < len)
        return 0;
    if (byte[0] == 0xe0)
        least = 0xa0;
    else if (byte[0] == 0xf0)
        least = 0x90;
    else if (byte[0] == 0xed)
        most = 0x9f;
    else if (byte[0] == 0xf4)
        most = 0x8f;
    if (byte[1] < least || byte[1] > most)
        return 0;
    if (len > 2 && (byte[2] & 0xc0) != 0x80)
        return 0;
    if (len > 3 && (byte[3] & 0xc0) != 0x80)
        return 0;
    return len;
}

#endif
