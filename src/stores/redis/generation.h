/*
 * generation: a set of shards that hold the queue together. Pure.
 *
 * A queue begins with generation 0. `tarry reshard` begins the next one, with another number of
 * shards, and jobs go over from the one to the other (decision 36). Only neighbours are ever there
 * at once. As text, and so in `{prefix}:shards`: "8", or "2@1" where it is not the first.
 */
#ifndef TARRY_REDIS_GENERATION_H
#define TARRY_REDIS_GENERATION_H

#include "base/slice.h"

#include <stdint.h>

enum { REDIS_GENERATION_BYTES = 24 /* as text, with its NUL */ };

struct redis_generation {
    uint32_t number, shards;
};

void redis_generation_write(const struct redis_generation *generation,
                            char out[REDIS_GENERATION_BYTES]);
/* False: it is none. */
bool redis_generation_parse(struct slice text, struct redis_generation *out);

/* A shard's number in leases and cursors: another one than any shard's of the generations before and
 * after. */
enum { REDIS_NUMBERS_OF_GENERATION = 64, REDIS_NUMBERS = 256 };
static inline uint32_t redis_generation_number_of(const struct redis_generation *generation,
                                                  uint32_t shard)
{
    return (generation->number * REDIS_NUMBERS_OF_GENERATION + shard) % REDIS_NUMBERS;
}

#endif
