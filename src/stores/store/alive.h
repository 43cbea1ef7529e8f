/*
 * alive: one bit for each slot of a run: does what lies there still count? Pure but for memory.
 *
 * The owner's thread clears bits; helpers may ask meanwhile (words are read and written whole) and
 * see a bit late. Bits are never set again.
 */
#ifndef TARRY_STORE_ALIVE_H
#define TARRY_STORE_ALIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct alive {
    _Atomic uint64_t *words; /* own memory */
    uint32_t slots, count;   /* count: bits set; the owner's */
};

/* All set. False: out of memory. */
bool alive_init(struct alive *alive, uint32_t slots);
void alive_fini(struct alive *alive);
bool alive_test(const struct alive *alive, uint32_t slot);
/* Whether it was set. */
bool alive_clear(struct alive *alive, uint32_t slot);
/* The first set one from `slot` on; `end` where there is none before it. */
uint32_t alive_next(const struct alive *alive, uint32_t slot, uint32_t end);

/* The stored form: the words, little-endian. */
static inline size_t alive_bytes(uint32_t slots)
{
    return ((size_t)slots + 63) / 64 * 8;
}
void alive_save(const struct alive *alive, char *into);
/* `bytes` are alive_bytes(slots). False: out of memory, or bits set beyond the last slot. */
bool alive_load(struct alive *alive, uint32_t slots, const char *bytes);

#endif
