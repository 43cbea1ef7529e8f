#include "base/radix.h"

#include <stdlib.h>
#include <string.h>

/* LSD: sorts from the last byte to the first, each time into the other array. Skips a byte that is
 * the same in all items. */
enum { DIGITS = 16, VALUES = 256 };

static unsigned digit_of(const struct radix_item *item, int digit)
{
    uint64_t word = digit < 8 ? item->low : item->high;

    return (unsigned)(word >> (digit % 8 * 8)) & (VALUES - 1);
}

/* Sorts the items by one digit. Stable. */
static void distribute(const struct radix_item *from, struct radix_item *to, size_t count,
                       int digit)
{
    size_t ends[VALUES] = {0}, at = 0;

    for (size_t i = 0; i < count; i++)
        ends[digit_of(&from[i], digit)]++;
    for (int value = 0; value < VALUES; value++) {
        size_t here = ends[value];

        ends[value] = at;
        at += here;
    }
    for (size_t i = 0; i < count; i++)
        to[ends[digit_of(&from[i], digit)]++] = from[i];
}

/* Returns the bits in which any item differs from the first. */
static struct radix_item differences(const struct radix_item *items, size_t count)
{
    struct radix_item differ = {0};

    for (size_t i = 1; i < count; i++) {
        differ.high |= items[i].high ^ items[0].high;
        differ.low |= items[i].low ^ items[0].low;
    }
    return differ;
}

bool radix_sort(struct radix_item *items, size_t count)
{
    struct radix_item differ, *from = items, *to, *other;

    if (count < 2)
        return true;
    to = other = malloc(count * sizeof *other);
    if (!other)
        return false;
    differ = differences(items, count);
    for (int digit = 0; digit < DIGITS; digit++) {
        struct radix_item *swap = from;

        if (digit_of(&differ, digit) == 0)
            continue;
        distribute(from, to, count, digit);
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
    free(other);
    return true;
}
