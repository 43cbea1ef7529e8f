#include "store/keys_private.h"

#include "job/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

static const char MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'k', 'e', 'y'};

enum { FOOTER_BYTES = 32, FORMAT_AT = 8 };

static uint64_t blocks_for(uint64_t count, uint64_t a_block)
{
    return count / a_block + (count % a_block != 0);
}

struct keys_shape keys_shape_of(uint64_t entries, uint64_t filter_blocks)
{
    struct keys_shape shape = {.entries = entries, .filter_blocks = filter_blocks};

    shape.filter_at = blocks_for(entries, KEYS_BLOCK_ENTRIES);
    shape.fences_at = shape.filter_at + blocks_for(filter_blocks * FILTER_BLOCK_BYTES, KEYS_SUM_AT);
    shape.footer_at = shape.fences_at + blocks_for(shape.filter_at * 8, KEYS_SUM_AT);
    return shape;
}

uint64_t keys_sum(const char *block, uint64_t seed, uint32_t number, uint64_t index)
{
    uint64_t place[3] = {htole64(seed), htole64(number), htole64(index)};

    return XXH3_64bits_withSeed(block, KEYS_SUM_AT, XXH3_64bits(place, sizeof place));
}

void keys_sign(char *block, uint64_t seed, uint32_t number, uint64_t index)
{
    wire_put_u64(block + KEYS_SUM_AT, keys_sum(block, seed, number, index));
}

void keys_put_entry(char *block, size_t index, const struct keys_entry *entry)
{
    char *at = block + index * KEYS_ENTRY_BYTES;

    wire_put_u32(wire_put_u32(wire_put_u64(at, entry->hash), entry->run), entry->slot);
}

struct keys_entry keys_get_entry(const char *block, size_t index)
{
    struct wire_in in =
        wire_in_make(slice_make(block + index * KEYS_ENTRY_BYTES, KEYS_ENTRY_BYTES));
    struct keys_entry entry;

    entry.hash = wire_take_u64(&in);
    entry.run = wire_take_u32(&in);
    entry.slot = wire_take_u32(&in);
    return entry;
}

void keys_put_footer(char *block, uint64_t seed, uint32_t number, const struct keys_shape *shape)
{
    char *at;

    memset(block, 0, KEYS_BLOCK_BYTES);
    memcpy(block, MAGIC, sizeof MAGIC);
    at = wire_put_u32(block + FORMAT_AT, KEYS_FORMAT);
    at = wire_put_u32(at, number);
    at = wire_put_u64(at, shape->entries);
    at = wire_put_u64(at, shape->filter_blocks);
    assert(at == block + FOOTER_BYTES);
    keys_sign(block, seed, number, shape->footer_at);
}

int keys_get_footer(const char *block, uint64_t seed, uint32_t number, int64_t file_bytes,
                    struct keys_shape *out)
{
    struct wire_in in = wire_in_make(slice_make(block + FORMAT_AT, KEYS_BLOCK_BYTES - FORMAT_AT));
    struct wire_in sum = wire_in_make(slice_make(block + KEYS_SUM_AT, 8));
    uint64_t blocks = (uint64_t)file_bytes / KEYS_BLOCK_BYTES, entries, filter_blocks;
    char again[KEYS_BLOCK_BYTES];
    struct keys_shape shape;

    if (file_bytes < KEYS_BLOCK_BYTES || file_bytes % KEYS_BLOCK_BYTES ||
        memcmp(block, MAGIC, sizeof MAGIC) != 0 ||
        wire_take_u64(&sum) != keys_sum(block, seed, number, blocks - 1))
        return -EBADMSG;
    if (wire_take_u32(&in) > KEYS_FORMAT)
        return -ENOTSUP;
    wire_take_u32(&in);
    entries = wire_take_u64(&in);
    filter_blocks = wire_take_u64(&in);
    /* So that nothing below overflows. */
    if (entries > (uint64_t)file_bytes || filter_blocks > (uint64_t)file_bytes || !filter_blocks)
        return -EBADMSG;
    shape = keys_shape_of(entries, filter_blocks);
    keys_put_footer(again, seed, number, &shape);
    if (memcmp(block, again, sizeof again) != 0) /* its checksum is of its place, too */
        return -EBADMSG;
    *out = shape;
    return 0;
}

void keys_file_name(uint32_t number, char out[32])
{
    snprintf(out, 32, "%08" PRIu32 ".keys", number);
}

uint32_t keys_file_number(const char *name)
{
    char again[32];
    char *end;
    unsigned long number = strtoul(name, &end, 10);

    if (*name < '0' || *name > '9' || number > UINT32_MAX)
        return 0;
    keys_file_name((uint32_t)number, again);
    return strcmp(name, again) == 0 ? (uint32_t)number : 0;
}

void keys_path(const char *dir, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", dir, name);
}
