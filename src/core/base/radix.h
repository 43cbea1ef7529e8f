/*
 * radix: sorts by numbers, in time that follows their count and how many of their bytes differ.
 *
 * For large arrays: a comparison sort takes several times as long for a million. Stable. Any
 * thread.
 */
#ifndef TARRY_BASE_RADIX_H
#define TARRY_BASE_RADIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct radix_item {
    uint64_t high, low; /* sorted by high, then low */
    size_t at;          /* the caller's: which one it is */
};

/* False: out of memory (it needs as much again); the order is then as it was. */
bool radix_sort(struct radix_item *items, size_t count);

#endif
