/*
 * alive: a bitmap that holds which slots of a run are alive, that is, still count. Does no I/O.
 *
 * The owner's thread clears bits. Helpers may read at the same time: words are read and written
 * atomically, so a helper can see a cleared bit late. Bits are never set again.
 */
#ifndef TARRY_STORE_ALIVE_H
#define TARRY_STORE_ALIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct alive {
    _Atomic uint64_t *words; /* owned */
    uint32_t slots, count;   /* count: number of set bits, for the owner's thread only */
};

/* Initializes with all bits set. Returns false if out of memory. */
bool alive_init(struct alive *alive, uint32_t slots);
void alive_fini(struct alive *alive);
bool alive_test(const struct alive *alive, uint32_t slot);
/* Clears the bit. Returns whether it was set. */
bool alive_clear(struct alive *alive, uint32_t slot);
/* Returns the first set slot in [slot, end), or `end` if no slot is set. */
uint32_t alive_next(const struct alive *alive, uint32_t slot, uint32_t end);

/* Returns the size of the stored form: the words, little-endian. */
static inline size_t alive_bytes(uint32_t slots)
{
    return ((size_t)slots + 63) / 64 * 8;
}
void alive_save(const struct alive *alive, char *into);
/* Loads from `bytes`, which are alive_bytes(slots) long. Returns false if out of memory or if bits
 * are set beyond the last slot. */
bool alive_load(struct alive *alive, uint32_t slots, const char *bytes);

#endif
