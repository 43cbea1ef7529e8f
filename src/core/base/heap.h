/*
 * heap: a binary heap of items of one type (Williams 1964).
 *
 * A zeroed heap is valid and empty. at[0] is the first item if `count` is above 0; the order of the
 * others is unspecified. The heap owns its memory until NAME_fini; the caller owns what the items
 * point to. Adding, removing and changing take logarithmic time. Adding returns false when out of
 * memory, and the heap is unchanged. One thread.
 *
 *     static inline bool timer_before(struct timer *const *a, struct timer *const *b)
 *     {
 *         return (*a)->due_ms < (*b)->due_ms;
 *     }
 *     static inline void timer_placed(struct timer **timer, size_t index)
 *     {
 *         (*timer)->index = index;
 *     }
 *     HEAP_DECLARE(timers, struct timer *, timer_before, timer_placed)
 *
 *     if (!timers_add(&heap, timer))
 *         ...out of memory...
 *     timer->due_ms = 7, timers_changed(&heap, timer->index);
 *     struct timer *first = timers_take_first(&heap);
 */
#ifndef TARRY_BASE_HEAP_H
#define TARRY_BASE_HEAP_H

#include "base/vector.h"

/* The PLACED argument for items that do not store their index. */
#define heap_place_unused(ITEM, INDEX) ((void)(ITEM), (void)(INDEX))

/* Declares `struct NAME` and the functions below. BEFORE(a, b), with pointers to items, returns
 * whether the first comes out before the second; false for equal items. PLACED(item, index) is
 * called with the new index of an item.
 *   NAME_reserve      reserves room for `count` items in total, so that adding them cannot fail
 *   NAME_add          adds an item
 *   NAME_changed      moves the item at `index` to its place after its order has changed
 *   NAME_remove       removes and returns the item at `index`
 *   NAME_take_first   removes and returns the first item; the heap is not empty
 *   NAME_fini         frees the memory; the heap is then empty */
#define HEAP_DECLARE(NAME, TYPE, BEFORE, PLACED)                                                   \
    struct NAME {                                                                                  \
        TYPE *at;                                                                                  \
        size_t count, cap;                                                                         \
    };                                                                                             \
    static inline __attribute__((unused)) bool NAME##_reserve(struct NAME *heap, size_t count)     \
    {                                                                                              \
        if (count <= heap->cap)                                                                    \
            return true;                                                                           \
        TYPE *grown = vector_grow((void *)heap->at, sizeof *grown, count, &heap->cap);             \
        if (grown)                                                                                 \
            heap->at = grown;                                                                      \
        return grown != NULL;                                                                      \
    }                                                                                              \
    static inline __attribute__((unused))                                                          \
    size_t NAME##_sift_up(struct NAME *heap, size_t index, TYPE const *item)                       \
    {                                                                                              \
        while (index > 0 && BEFORE(item, &heap->at[(index - 1) / 2])) {                            \
            heap->at[index] = heap->at[(index - 1) / 2];                                           \
            PLACED(&heap->at[index], index);                                                       \
            index = (index - 1) / 2;                                                               \
        }                                                                                          \
        return index;                                                                              \
    }                                                                                              \
    static inline __attribute__((unused))                                                          \
    size_t NAME##_sift_down(struct NAME *heap, size_t index, TYPE const *item)                     \
    {                                                                                              \
        for (size_t child; (child = 2 * index + 1) < heap->count; index = child) {                 \
            if (child + 1 < heap->count && BEFORE(&heap->at[child + 1], &heap->at[child]))         \
                child++;                                                                           \
            if (!BEFORE(&heap->at[child], item))                                                   \
                break;                                                                             \
            heap->at[index] = heap->at[child];                                                     \
            PLACED(&heap->at[index], index);                                                       \
        }                                                                                          \
        return index;                                                                              \
    }                                                                                              \
    static inline                                                                                  \
        __attribute__((unused)) void NAME##_put(struct NAME *heap, size_t index, TYPE item)        \
    {                                                                                              \
        index = NAME##_sift_up(heap, index, &item);                                                \
        index = NAME##_sift_down(heap, index, &item);                                              \
        heap->at[index] = item;                                                                    \
        PLACED(&heap->at[index], index);                                                           \
    }                                                                                              \
    static inline __attribute__((unused)) bool NAME##_add(struct NAME *heap, TYPE item)            \
    {                                                                                              \
        if (!NAME##_reserve(heap, heap->count + 1))                                                \
            return false;                                                                          \
        heap->count++;                                                                             \
        NAME##_put(heap, heap->count - 1, item);                                                   \
        return true;                                                                               \
    }                                                                                              \
    static inline __attribute__((unused)) void NAME##_changed(struct NAME *heap, size_t index)     \
    {                                                                                              \
        NAME##_put(heap, index, heap->at[index]);                                                  \
    }                                                                                              \
    static inline __attribute__((unused)) TYPE NAME##_remove(struct NAME *heap, size_t index)      \
    {                                                                                              \
        TYPE gone = heap->at[index];                                                               \
        heap->count--;                                                                             \
        if (index < heap->count)                                                                   \
            NAME##_put(heap, index, heap->at[heap->count]);                                        \
        return gone;                                                                               \
    }                                                                                              \
    static inline __attribute__((unused)) TYPE NAME##_take_first(struct NAME *heap)                \
    {                                                                                              \
        return NAME##_remove(heap, 0);                                                             \
    }                                                                                              \
    static inline __attribute__((unused)) void NAME##_fini(struct NAME *heap)                      \
    {                                                                                              \
        free((void *)heap->at);                                                                    \
        *heap = (struct NAME){0};                                                                  \
    }

#endif
