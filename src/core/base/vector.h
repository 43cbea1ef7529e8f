/*
 * vector: a growable array of items of one type.
 *
 * A zeroed vector is valid and empty. The vector owns its memory until NAME_fini; the caller owns
 * what the items point to. A pointer to an item is valid until the next item is added. Adding takes
 * amortized constant time. If memory runs out or the count is too large, the function returns false
 * and the vector is unchanged. One thread.
 *
 *     VECTOR_DECLARE(numbers, uint64_t)
 *
 *     struct numbers list = {0};
 *     if (!numbers_add(&list, 7))
 *         ...out of memory...
 *     for (size_t i = 0; i < list.count; i++)
 *         sum += list.at[i];
 *     numbers_fini(&list);
 */
#ifndef TARRY_BASE_VECTOR_H
#define TARRY_BASE_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Grows an array in a struct with another layout: `items` of `item_bytes` each, with room for *cap
 * of them. Reallocates to room for at least `count` items and at least twice the old capacity.
 * Returns NULL when out of memory; nothing has changed then. */
static inline void *vector_grow(void *items, size_t item_bytes, size_t count, size_t *cap)
{
    size_t wanted = *cap <= SIZE_MAX / 2 && *cap * 2 > count ? *cap * 2 : count;
    size_t bytes;
    wanted = wanted < 8 ? 8 : wanted;
    if (__builtin_mul_overflow(wanted, item_bytes, &bytes))
        return NULL;
    void *grown = realloc(items, bytes);
    if (grown)
        *cap = wanted;
    return grown;
}

/* Declares `struct NAME` and:
 *   NAME_reserve   reserves room for `count` items in total, so that adding them cannot fail
 *   NAME_add       appends an item
 *   NAME_insert    inserts an item before the one at `index`; linear
 *   NAME_remove    removes the item at `index` and moves up those after it; linear
 *   NAME_fini      frees the memory; the vector is then empty */
#define VECTOR_DECLARE(NAME, TYPE)                                                                 \
    struct NAME {                                                                                  \
        TYPE *at;                                                                                  \
        size_t count, cap;                                                                         \
    };                                                                                             \
    static inline __attribute__((unused)) bool NAME##_reserve(struct NAME *vector, size_t count)   \
    {                                                                                              \
        if (count <= vector->cap)                                                                  \
            return true;                                                                           \
        TYPE *grown = vector_grow((void *)vector->at, sizeof *grown, count, &vector->cap);         \
        if (grown)                                                                                 \
            vector->at = grown;                                                                    \
        return grown != NULL;                                                                      \
    }                                                                                              \
    static inline __attribute__((unused)) bool NAME##_add(struct NAME *vector, TYPE item)          \
    {                                                                                              \
        if (!NAME##_reserve(vector, vector->count + 1))                                            \
            return false;                                                                          \
        vector->at[vector->count++] = item;                                                        \
        return true;                                                                               \
    }                                                                                              \
    static inline                                                                                  \
        __attribute__((unused)) bool NAME##_insert(struct NAME *vector, size_t index, TYPE item)   \
    {                                                                                              \
        if (!NAME##_reserve(vector, vector->count + 1))                                            \
            return false;                                                                          \
        memmove(vector->at + index + 1, vector->at + index,                                        \
                (vector->count - index) * sizeof item);                                            \
        vector->at[index] = item;                                                                  \
        vector->count++;                                                                           \
        return true;                                                                               \
    }                                                                                              \
    static inline __attribute__((unused)) void NAME##_remove(struct NAME *vector, size_t index)    \
    {                                                                                              \
        vector->count--;                                                                           \
        memmove(vector->at + index, vector->at + index + 1,                                        \
                (vector->count - index) * sizeof *vector->at);                                     \
    }                                                                                              \
    static inline __attribute__((unused)) void NAME##_fini(struct NAME *vector)                    \
    {                                                                                              \
        free((void *)vector->at);                                                                  \
        *vector = (struct NAME){0};                                                                \
    }

#endif
