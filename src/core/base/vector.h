/*
 * vector: items of one type side by side in memory that grows at the end.
 *
 * A zeroed vector is a valid empty one. The memory is its own until NAME_fini; what the items point
 * to is the caller's. A pointer to an item is good until the next one is added. Adding takes
 * constant time on the average. What can go wrong: out of memory or too many, then false, and all
 * is as before. One thread.
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

/* For structs that are laid out otherwise: `items` of `item_bytes` each with room for *cap of them,
 * moved where there is room for `count` at least, twice as many as before or more. NULL: out of
 * memory, nothing has changed. */
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
 *   NAME_reserve   room for `count` items in all; then so many are added without fail
 *   NAME_add       one item behind the last
 *   NAME_insert    one item before the one at `index`; linear
 *   NAME_remove    the item at `index`, those behind it move up; linear
 *   NAME_fini      frees the memory; the vector is empty then */
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
