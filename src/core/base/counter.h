/*
 * counter: a number that one thread changes and any thread reads.
 *
 * With one writer no locked instruction is needed, so it costs as much as a plain number.
 */
#ifndef TARRY_BASE_COUNTER_H
#define TARRY_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

static inline uint64_t counter_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Sets the counter. Only on the counter's thread. */
static inline void counter_set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline void counter_add(_Atomic uint64_t *counter, uint64_t more)
{
    counter_set(counter, counter_get(counter) + more);
}

#endif
