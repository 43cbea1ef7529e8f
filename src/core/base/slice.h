/*
 * slice: a run of bytes that it does not own.
 *
 * Guarantees nothing about a terminating NUL or about the content. `at` may be NULL only if `len`
 * is 0. Valid as long as the owner specifies; copy bytes that must live longer.
 */
#ifndef TARRY_BASE_SLICE_H
#define TARRY_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *at;
    size_t len; /* bytes */
};

static inline struct slice slice_make(const void *at, size_t len)
{
    return (struct slice){.at = at, .len = len};
}

static inline struct slice slice_of(const char *text)
{
    return (struct slice){.at = text, .len = strlen(text)};
}

static inline bool slice_equals(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Returns a value below, equal to or above zero: compares by bytes, then the shorter slice
 * first. */
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.at, b.at, common) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Copies the text and a NUL into `out`, of `out_bytes`, for functions that take a C string. Returns
 * false if the text does not fit or contains a NUL, at which those functions would stop. */
static inline bool slice_copy(struct slice text, char *out, size_t out_bytes)
{
    if (text.len >= out_bytes || (text.len && memchr(text.at, 0, text.len)))
        return false;
    if (text.len)
        memcpy(out, text.at, text.len);
    out[text.len] = 0;
    return true;
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_equals(a, slice_of(text));
}

#endif
