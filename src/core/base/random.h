/* random: random bytes from the system, and a small generator whose state the caller owns. */
#ifndef TARRY_BASE_RANDOM_H
#define TARRY_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fills `into` from the system's source, fit for secrets. Aborts if the system has none. Any
 * thread. */
void random_bytes(void *into, size_t len);
uint64_t random_u64(void);

/* A SplitMix64 generator (Steele, Lea, Flood 2014): not for secrets. Pure: the same state gives the
 * same sequence. */
struct random {
    uint64_t state;
};

uint64_t random_next(struct random *random);
/* Returns a uniform value in [0, bound); 0 if bound is 0. */
uint64_t random_below(struct random *random, uint64_t bound);

#endif
