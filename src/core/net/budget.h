/*
 * budget: the memory that all connections of a server may use together, whatever their protocol.
 *
 * Counted: buffers of incomplete requests, bodies that the store works on, unwritten answers,
 * connections and waiting takes. Not counted: the memory of the store itself, and one read and one
 * answer in progress per front. A budget does not refuse anything: the caller checks it before
 * adding.
 *
 * Any thread. The caller owns the structure, zeroed except for `bytes_max`; it outlives the
 * connections.
 */
#ifndef TARRY_NET_BUDGET_H
#define TARRY_NET_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BUDGET_SMALL_BYTES = 16 * 1024,  /* always allowed, so that small jobs get through */
    BUDGET_LARGE_BYTES = 1024 * 1024 /* larger requests cannot use the last quarter */
};

struct budget {
    uint64_t bytes_max;
    _Atomic uint64_t bytes, refused;
};

static inline void budget_add(struct budget *budget, size_t bytes)
{
    atomic_fetch_add_explicit(&budget->bytes, bytes, memory_order_relaxed);
}

static inline void budget_remove(struct budget *budget, size_t bytes)
{
    atomic_fetch_sub_explicit(&budget->bytes, bytes, memory_order_relaxed);
}

/* Updates the count of a buffer to its current `bytes`, from *counted. */
static inline void budget_recount(struct budget *budget, size_t *counted, size_t bytes)
{
    if (bytes > *counted)
        budget_add(budget, bytes - *counted);
    else if (bytes < *counted)
        budget_remove(budget, *counted - bytes);
    *counted = bytes;
}

static inline uint64_t budget_used(const struct budget *budget)
{
    return atomic_load_explicit(&budget->bytes, memory_order_relaxed);
}

static inline bool budget_is_spent(const struct budget *budget)
{
    return budget_used(budget) >= budget->bytes_max;
}

/* Returns whether there is room for `bytes` more. */
static inline bool budget_has(const struct budget *budget, size_t bytes)
{
    uint64_t max = budget->bytes_max;
    return bytes <= BUDGET_SMALL_BYTES ||
           budget_used(budget) + bytes <= (bytes > BUDGET_LARGE_BYTES ? max / 4 * 3 : max);
}

/* Counts a request that was refused for lack of room. */
static inline void budget_note_refused(struct budget *budget)
{
    atomic_fetch_add_explicit(&budget->refused, 1, memory_order_relaxed);
}

#endif
