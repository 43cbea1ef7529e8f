#include "redis/slot.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Table for CRC16 with polynomial 0x1021, four bits at a time: keys are short and slots are rarely
 * computed. */
static const uint16_t crc_of_nibble[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                           0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                           0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};

static uint16_t crc16(uint16_t crc, struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned byte = (unsigned char)bytes.at[i];
        crc = (uint16_t)((unsigned)crc << 4 ^ crc_of_nibble[(unsigned)crc >> 12 ^ byte >> 4]);
        crc = (uint16_t)((unsigned)crc << 4 ^ crc_of_nibble[(unsigned)crc >> 12 ^ (byte & 15)]);
    }
    return crc;
}

static uint16_t slot_of_crc(uint16_t crc)
{
    return crc % REDIS_SLOTS;
}

/* Returns the part of the key that is hashed. An empty tag, "{}", does not count. */
static struct slice hashed_part(struct slice key)
{
    const char *open = key.len ? memchr(key.at, '{', key.len) : NULL;
    if (!open)
        return key;
    const char *from = open + 1, *end = key.at + key.len;
    const char *close = from < end ? memchr(from, '}', (size_t)(end - from)) : NULL;
    return close && close > from ? slice_make(from, (size_t)(close - from)) : key;
}

uint16_t redis_slot_of(struct slice key)
{
    return slot_of_crc(crc16(0, hashed_part(key)));
}

/* Returns whether the slot is close enough to the middle of the shard's part: closer than any
 * border between up to `shards` masters can be to the middle of a part, which is at least a 2 *
 * shards-th of a part. */
static bool is_central(uint16_t slot, uint32_t shard, uint32_t shards)
{
    int middle = (int)((2 * shard + 1) * REDIS_SLOTS / (2 * shards));
    int reach = (int)(REDIS_SLOTS / (2 * shards * shards));
    assert(reach > 0);
    return abs((int)slot - middle) < reach;
}

static size_t write_stem(char stem[REDIS_TAG_BYTES], const char *prefix, uint32_t generation,
                         uint32_t shard, uint32_t shards)
{
    int len = generation ? snprintf(stem, REDIS_TAG_BYTES, "%s:%u.%u:%u", prefix,
                                    (unsigned)generation, (unsigned)shards, (unsigned)shard)
                         : snprintf(stem, REDIS_TAG_BYTES, "%s:%u", prefix, (unsigned)shard);
    assert(len > 0);
    return (size_t)len;
}

void redis_slot_tag_of(const char *prefix, uint32_t generation, uint32_t shard, uint32_t shards,
                       char out[REDIS_TAG_BYTES])
{
    char stem[REDIS_TAG_BYTES], more[12] = "";
    assert(shard < shards);
    size_t stem_len = write_stem(stem, prefix, generation, shard, shards);
    assert(stem_len + sizeof more + 3 <= REDIS_TAG_BYTES);
    uint16_t crc_of_stem = crc16(0, slice_make(stem, stem_len)), crc = crc_of_stem;
    for (uint32_t k = 0; !is_central(slot_of_crc(crc), shard, shards); k++) {
        int digits = snprintf(more, sizeof more, ":%u", k);
        crc = crc16(crc_of_stem, slice_make(more, (size_t)digits));
    }
    int len = snprintf(out, REDIS_TAG_BYTES, "{%s%s}", stem, more);
    assert(len < REDIS_TAG_BYTES);
    (void)len;
}

void redis_slot_tag(const char *prefix, uint32_t shard, uint32_t shards, char out[REDIS_TAG_BYTES])
{
    redis_slot_tag_of(prefix, 0, shard, shards, out);
}
