/* slot: which of a cluster's 16,384 slots a key is in, and hash tags that spread shards evenly over
 * them (redis.io/docs/reference/cluster-spec). Pure. */
#ifndef TARRY_REDIS_SLOT_H
#define TARRY_REDIS_SLOT_H

#include "base/slice.h"

#include <stdint.h>

enum { REDIS_SLOTS = 16384, REDIS_TAG_BYTES = 64 };

/* CRC16 (XMODEM) of the key, or of what stands between the first { and the next }. */
uint16_t redis_slot_of(struct slice key);

/*
 * "{prefix:shard}" or "{prefix:shard:k}", NUL-terminated: the first such tag whose slot lies in the
 * middle of the shard's even part of all slots. So of N shards two masters never carry more than
 * one more or less, over any even division of the slots among up to N masters; anywhere in the part
 * would not do, as 8 shards on 3 masters could then be 2, 4 and 2. Depends on nothing but its
 * arguments. At most 64 shards and 32 bytes of prefix.
 * That is the first generation; a later one (generation.h) has "{prefix:generation.shards:shard…}".
 */
void redis_slot_tag_of(const char *prefix, uint32_t generation, uint32_t shard, uint32_t shards,
                       char out[REDIS_TAG_BYTES]);
/* Of the first generation. */
void redis_slot_tag(const char *prefix, uint32_t shard, uint32_t shards, char out[REDIS_TAG_BYTES]);

#endif
