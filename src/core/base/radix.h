/*
 * radix: sorts by numbers, in time proportional to their count and to how many of their bytes
 * differ.
 *
 * For large arrays: a comparison sort takes several times as long for a million items. Stable. Any
 * thread.
 */
#ifndef TARRY_BASE_RADIX_H
#define TARRY_BASE_RADIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct radix_item {
    uint64_t high, low; /* sorted by high, then low */
    size_t at;          /* an index or value of the caller */
};

/* Sorts the items. Returns false when out of memory (it needs the same amount again); the order is
 * then unchanged. */
bool radix_sort(struct radix_item *items, size_t count);

#endif
