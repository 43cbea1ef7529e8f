/*
 * generation: a set of shards that together hold the queue. Pure.
 *
 * A queue begins with generation 0. `tarry reshard` starts the next generation, with another number
 * of shards, and the jobs move from the old one to the new one (decision 36). At most two
 * consecutive generations exist at a time. Text form, also used in `{prefix}:shards`: "8", or "2@1"
 * if it is not the first.
 */
#ifndef TARRY_REDIS_GENERATION_H
#define TARRY_REDIS_GENERATION_H

#include "base/slice.h"

#include <stdint.h>

enum { REDIS_GENERATION_BYTES = 24 /* text form, with its NUL */ };

struct redis_generation {
    uint32_t number, shards;
};

void redis_generation_write(const struct redis_generation *generation,
                            char out[REDIS_GENERATION_BYTES]);
/* Returns false if the text is not a generation. */
bool redis_generation_parse(struct slice text, struct redis_generation *out);

/* Returns the shard's number in leases and cursors. It differs from the numbers of all shards of
 * the previous and the next generation. */
enum { REDIS_NUMBERS_OF_GENERATION = 64, REDIS_NUMBERS = 256 };
static inline uint32_t redis_generation_number_of(const struct redis_generation *generation,
                                                  uint32_t shard)
{
    return (generation->number * REDIS_NUMBERS_OF_GENERATION + shard) % REDIS_NUMBERS;
}

#endif
