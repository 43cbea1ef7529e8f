/* slot: computes which of a cluster's 16,384 slots holds a key, and hash tags that spread shards
 * evenly over the slots (redis.io/docs/reference/cluster-spec). Pure. */
#ifndef TARRY_REDIS_SLOT_H
#define TARRY_REDIS_SLOT_H

#include "base/slice.h"

#include <stdint.h>

enum { REDIS_SLOTS = 16384, REDIS_TAG_BYTES = 64 };

/* Returns the CRC16 (XMODEM) slot of the key, or of the part between the first { and the next }. */
uint16_t redis_slot_of(struct slice key);

/*
 * Writes "{prefix:shard}" or "{prefix:shard:k}", NUL-terminated: the first such tag whose slot is
 * in the middle of the shard's even part of all slots. This way the number of N shards per master
 * differs by at most one, for any even division of the slots among up to N masters. Any slot in the
 * part would not do: 8 shards on 3 masters could then be split 2, 4 and 2. Depends only on its
 * arguments. At most 64 shards and 32 bytes of prefix. This is the form in the first generation; a
 * later one (generation.h) has "{prefix:generation.shards:shard…}".
 */
void redis_slot_tag_of(const char *prefix, uint32_t generation, uint32_t shard, uint32_t shards,
                       char out[REDIS_TAG_BYTES]);
/* Writes the tag for the first generation. */
void redis_slot_tag(const char *prefix, uint32_t shard, uint32_t shards, char out[REDIS_TAG_BYTES]);

#endif
