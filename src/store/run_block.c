#include "job/wire.h"
#include "store/run_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/*
 * Every checksum is made with the secret seed and for its place: the run, and the block or the
 * slot. So neither a block of another run (an older file of the same number among them) nor one
 * written to the wrong place passes, nor anything a client put into a body.
 */

static const char HEADER_MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'r', 'u', 'n'};
static const char FOOTER_MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'e', 'n', 'd'};
static const char SUFFIX[] = ".run";

enum { MAGIC_BYTES = 8, FOOTER_USED_BYTES = MAGIC_BYTES + 5 * 4 + 8 + SECTIONS * 12 };

/* `what` keeps blocks and records apart. */
static uint64_t place_seed(uint64_t seed, uint32_t number, uint32_t at, uint64_t what)
{
    return (seed ^ what) + ((uint64_t)number << 32 | at) * 0x9e3779b97f4a7c15u;
}

static uint64_t block_sum(uint64_t seed, uint32_t number, uint64_t offset, const char *block)
{
    uint32_t at = (uint32_t)(offset / RUN_BLOCK_BYTES);

    return XXH3_64bits_withSeed(block, RUN_BLOCK_ROOM,
                                place_seed(seed, number, at, 0x72756e20626c6f63u));
}

void run_block_seal(uint64_t seed, uint32_t number, uint64_t offset, char *block)
{
    wire_put_u64(block + RUN_BLOCK_ROOM, block_sum(seed, number, offset, block));
}

bool run_block_is_whole(uint64_t seed, uint32_t number, uint64_t offset, const char *block)
{
    struct wire_in in = wire_in_make(slice_make(block + RUN_BLOCK_ROOM, 8));

    return wire_take_u64(&in) == block_sum(seed, number, offset, block);
}

uint32_t run_record_check(uint64_t seed, uint32_t number, uint32_t slot, struct slice record)
{
    return (uint32_t)XXH3_64bits_withSeed(record.at, record.len,
                                          place_seed(seed, number, slot, 0x72756e207265636fu));
}

/* ---- header ---- */

/* This block keeps its form in every format, so that older versions can name newer ones. */
static void header_encode(uint64_t seed, uint32_t number, uint32_t format, char *block)
{
    char *at = block + MAGIC_BYTES;

    memset(block, 0, RUN_BLOCK_BYTES);
    memcpy(block, HEADER_MAGIC, MAGIC_BYTES);
    at = wire_put_u32(at, format);
    wire_put_u32(at, number);
    run_block_seal(seed, number, 0, block);
}

void run_header_encode(uint64_t seed, uint32_t number, char *block)
{
    header_encode(seed, number, RUN_FORMAT, block);
}

int run_header_decode(uint64_t seed, uint32_t number, const char *block, uint32_t *format)
{
    struct wire_in in = wire_in_make(slice_make(block + MAGIC_BYTES, 4));
    char again[RUN_BLOCK_BYTES];

    *format = wire_take_u32(&in);
    header_encode(seed, number, *format, again);
    if (memcmp(block, again, RUN_BLOCK_BYTES) != 0 || *format == 0)
        return -EBADMSG;
    return *format > RUN_FORMAT ? -EPROTONOSUPPORT : 0;
}

/* ---- footer ---- */

void run_footer_lay_out(struct run_footer *footer)
{
    struct run_info *info = &footer->info;
    uint32_t first = 0;

    for (int section = 0; section < SECTIONS; section++) {
        info->sections[section].first = first;
        first += info->sections[section].count;
    }
    info->record_bytes = footer->record_end - RUN_BLOCK_BYTES;
    footer->directory_at = run_round_up(footer->record_end);
    footer->topics_at =
        footer->directory_at + (uint64_t)run_directory_blocks(info->slots) * RUN_BLOCK_BYTES;
    info->file_bytes = footer->topics_at + run_topic_blocks(footer->topic_bytes) * RUN_BLOCK_BYTES +
                       RUN_BLOCK_BYTES;
}

void run_footer_encode(uint64_t seed, const struct run_footer *footer, char *block)
{
    const struct run_info *info = &footer->info;
    char *at = block + MAGIC_BYTES;

    memset(block, 0, RUN_BLOCK_BYTES);
    memcpy(block, FOOTER_MAGIC, MAGIC_BYTES);
    at = wire_put_u32(at, RUN_FORMAT);
    at = wire_put_u32(at, info->number);
    at = wire_put_u32(at, info->slots);
    at = wire_put_u32(at, info->topics);
    at = wire_put_u32(at, footer->topic_bytes);
    at = wire_put_u64(at, footer->record_end);
    for (int section = 0; section < SECTIONS; section++) {
        at = wire_put_u32(at, info->sections[section].count);
        at = wire_put_u64(at, (uint64_t)info->sections[section].first_when_ms);
    }
    assert(at == block + FOOTER_USED_BYTES);
    run_block_seal(seed, info->number, info->file_bytes - RUN_BLOCK_BYTES, block);
}

/* The figures are of a file of that size. Checked before anything is computed from them. */
static bool footer_is_sound(struct run_footer *footer, uint64_t file_bytes)
{
    const struct run_info *info = &footer->info;
    uint64_t slots = 0;

    for (int section = 0; section < SECTIONS; section++)
        slots += info->sections[section].count;
    if (slots != info->slots || info->topics > info->slots || info->topics > RUN_TOPICS_MAX ||
        footer->topic_bytes < info->topics || footer->record_end < RUN_BLOCK_BYTES ||
        footer->record_end > file_bytes)
        return false;
    run_footer_lay_out(footer);
    return info->file_bytes == file_bytes;
}

/* What is sound is what would be written again just so: figures with the sum that is there. */
bool run_footer_decode(uint64_t seed, uint32_t number, uint64_t file_bytes, const char *block,
                       struct run_footer *out)
{
    struct wire_in in =
        wire_in_make(slice_make(block + MAGIC_BYTES, FOOTER_USED_BYTES - MAGIC_BYTES));
    struct run_footer footer = {.info = {.number = number}};
    char again[RUN_BLOCK_BYTES];

    wire_take_u64(&in);
    footer.info.slots = wire_take_u32(&in);
    footer.info.topics = wire_take_u32(&in);
    footer.topic_bytes = wire_take_u32(&in);
    footer.record_end = wire_take_u64(&in);
    for (int section = 0; section < SECTIONS; section++) {
        footer.info.sections[section].count = wire_take_u32(&in);
        footer.info.sections[section].first_when_ms = (int64_t)wire_take_u64(&in);
    }
    if (!footer_is_sound(&footer, file_bytes))
        return false;
    run_footer_encode(seed, &footer, again);
    if (memcmp(block + RUN_BLOCK_ROOM, again + RUN_BLOCK_ROOM, RUN_BLOCK_BYTES - RUN_BLOCK_ROOM))
        return false;
    *out = footer;
    return true;
}

/* ---- files ---- */

void run_path(const char *dir, const char *name, const char *suffix, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s%s", dir, name, suffix);
}

void run_file_name(uint32_t number, char out[32])
{
    snprintf(out, 32, "%08" PRIu32 "%s", number, SUFFIX);
}

uint32_t run_file_number(const char *name)
{
    char again[32];
    unsigned long number;

    if (*name < '0' || *name > '9')
        return 0;
    number = strtoul(name, NULL, 10);
    if (number > UINT32_MAX)
        return 0;
    run_file_name((uint32_t)number, again);
    return strcmp(name, again) == 0 ? (uint32_t)number : 0;
}
