/* The stored form of a batch: its head and checksums. */
#include "job/wire.h"
#include "store/wal_private.h"

#include <errno.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/*
 * Every checksum depends on the log's secret seed and on its position. So a batch that a file held
 * before its reuse (under another number) is never mistaken for one of this file, nor is anything
 * that a client put into a body, because the client does not know the seed.
 */

static const char MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'b', 'a', '1'};

enum { HEAD_SUM_AT = WAL_HEAD_BYTES - 8 };

static uint64_t place_seed(const struct wal_disk *disk, uint32_t file, uint32_t at)
{
    return disk->seed ^ (((uint64_t)file << 32 | at) * 0x9e3779b97f4a7c15u);
}

uint64_t wal_sum(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

uint64_t wal_head_magic(void)
{
    uint64_t magic;

    memcpy(&magic, MAGIC, sizeof magic);
    return magic;
}

void wal_head_encode(const struct wal_disk *disk, uint32_t file, uint32_t at, struct wal_head *head,
                     char *batch)
{
    char *into = batch + sizeof MAGIC;

    head->body_sum = wal_sum(batch + WAL_HEAD_BYTES, head->bytes - WAL_HEAD_BYTES, disk->seed);
    memcpy(batch, MAGIC, sizeof MAGIC);
    into = wire_put_u32(into, head->bytes);
    into = wire_put_u32(into, head->count);
    into = wire_put_u64(into, head->epoch);
    into = wire_put_u64(into, head->sequence);
    into = wire_put_u64(into, head->synced_sequence);
    into = wire_put_u64(into, (uint64_t)head->inner_ms);
    into = wire_put_u64(into, (uint64_t)head->wall_ms);
    into = wire_put_u64(into, head->body_sum);
    assert(into == batch + HEAD_SUM_AT);
    wire_put_u64(into, wal_sum(batch, HEAD_SUM_AT, place_seed(disk, file, at)));
}

bool wal_head_decode(const struct wal_disk *disk, uint32_t file, uint32_t at, const char *bytes,
                     struct wal_head *out)
{
    struct wire_in in =
        wire_in_make(slice_make(bytes + sizeof MAGIC, WAL_HEAD_BYTES - sizeof MAGIC));

    if (memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return false;
    out->bytes = wire_take_u32(&in);
    out->count = wire_take_u32(&in);
    out->epoch = wire_take_u64(&in);
    out->sequence = wire_take_u64(&in);
    out->synced_sequence = wire_take_u64(&in);
    out->inner_ms = (int64_t)wire_take_u64(&in);
    out->wall_ms = (int64_t)wire_take_u64(&in);
    out->body_sum = wire_take_u64(&in);
    return wire_take_u64(&in) == wal_sum(bytes, HEAD_SUM_AT, place_seed(disk, file, at)) &&
           out->bytes > WAL_HEAD_BYTES;
}

bool wal_body_is_whole(const struct wal_disk *disk, const struct wal_head *head, const char *batch)
{
    return wal_sum(batch + WAL_HEAD_BYTES, head->bytes - WAL_HEAD_BYTES, disk->seed) ==
           head->body_sum;
}

void wal_check_put(const struct wal_disk *disk, uint32_t file, uint32_t at, char *record,
                   size_t bytes)
{
    wire_put_u32(record + bytes, (uint32_t)wal_sum(record, bytes, place_seed(disk, file, at)));
}

bool wal_check_holds(const struct wal_disk *disk, struct record_place place, const char *record)
{
    struct wire_in in = wire_in_make(slice_make(record + place.bytes, WAL_CHECK_BYTES));

    return wire_take_u32(&in) ==
           (uint32_t)wal_sum(record, place.bytes, place_seed(disk, place.file, place.at));
}

size_t wal_check_bytes(struct slice record)
{
    return record_is_read_again(record) ? WAL_CHECK_BYTES : 0;
}

int wal_record_next(struct slice records, size_t *at, struct slice *record)
{
    struct slice rest = slice_make(records.at + *at, records.len - *at);
    size_t bytes, with_check;

    if (rest.len == 0)
        return 0;
    bytes = record_next(rest);
    if (bytes == 0)
        return -EBADMSG;
    with_check = bytes + wal_check_bytes(slice_make(rest.at, bytes));
    if (with_check > rest.len)
        return -EBADMSG;
    *record = slice_make(rest.at, bytes);
    *at += with_check;
    return 1;
}
