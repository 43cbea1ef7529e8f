#include "job/wire.h"
#include "store/run_private.h"

#include <errno.h>
#include <fcntl.h>

enum { READ_BLOCKS = 8 }; /* of the directory at once, on the stack */

/* ---- the directory ---- */

static bool entry_is_sound(const struct run *run, const struct run_slot *entry, uint64_t end)
{
    return entry->offset >= RUN_BLOCK_BYTES && end <= run->footer.record_end &&
           end > entry->offset + RUN_CHECK_BYTES &&
           end - entry->offset <= (uint64_t)RUN_RECORD_BYTES_MAX + RUN_CHECK_BYTES &&
           entry->topic < run->footer.info.topics;
}

/* How many entries the block has. */
static uint32_t entries_in(const struct run *run, uint32_t block)
{
    uint32_t left = run->footer.info.slots - block * RUN_BLOCK_SLOTS;

    return left < RUN_BLOCK_SLOTS ? left : RUN_BLOCK_SLOTS;
}

static uint64_t block_offset(const struct run *run, uint32_t block)
{
    return run->footer.directory_at + (uint64_t)block * RUN_BLOCK_BYTES;
}

int run_block_slots(const struct run *run, uint32_t block, const char *bytes, uint32_t at,
                    uint32_t count, struct run_slot *out)
{
    const uint64_t offset_mask = RUN_FILE_BYTES_MAX - 1;
    uint32_t entries = entries_in(run, block);

    assert(at + count <= entries);
    if (!run_block_holds(run->seed, run->footer.info.number, block_offset(run, block), bytes,
                         entries * (size_t)RUN_ENTRY_BYTES, RUN_ENTRIES_BYTES))
        return -EBADMSG;
    for (uint32_t i = at; i < at + count; i++, out++) {
        const char *entry = bytes + (size_t)i * RUN_ENTRY_BYTES;
        struct wire_in in = wire_in_make(slice_make(entry, RUN_ENTRY_BYTES));
        const char *next = bytes + RUN_ENTRIES_BYTES;
        uint64_t place, end;

        if (i + 1 < entries)
            next = entry + RUN_ENTRY_BYTES + 16;
        out->when_ms = (int64_t)wire_take_u64(&in);
        out->sequence = wire_take_u64(&in);
        place = wire_take_u64(&in);
        out->offset = place & offset_mask;
        out->topic = (uint32_t)(place >> RUN_OFFSET_BITS);
        in = wire_in_make(slice_make(next, 8));
        end = wire_take_u64(&in) & offset_mask;
        if (!entry_is_sound(run, out, end))
            return -EBADMSG;
        out->bytes = (uint32_t)(end - out->offset) - RUN_CHECK_BYTES;
    }
    return 0;
}

int run_slots(const struct run *run, uint32_t first, uint32_t count, bool may_block,
              struct run_slot *out)
{
    char bytes[READ_BLOCKS * RUN_BLOCK_BYTES];
    uint32_t end = first + count;

    assert(first <= run->footer.info.slots && count <= run->footer.info.slots - first);
    while (first < end) {
        uint32_t block = first / RUN_BLOCK_SLOTS, last = (end - 1) / RUN_BLOCK_SLOTS;
        uint32_t blocks = last - block + 1 < READ_BLOCKS ? last - block + 1 : READ_BLOCKS;
        int result =
            fs_pread_whole(run->fs, run->fd, may_block, bytes, (size_t)blocks * RUN_BLOCK_BYTES,
                           (int64_t)block_offset(run, block));

        for (uint32_t i = 0; result == 0 && i < blocks; i++) {
            uint32_t at = first % RUN_BLOCK_SLOTS, some = RUN_BLOCK_SLOTS - at;

            some = end - first < some ? end - first : some;
            result =
                run_block_slots(run, block + i, bytes + (size_t)i * RUN_BLOCK_BYTES, at, some, out);
            out += some;
            first += some;
        }
        if (result < 0)
            return result;
    }
    return 0;
}

/* The first entry of the block at or behind `from` whose when is not below; entries_in: none. */
static int seek_in_block(const struct run *run, uint32_t block, uint32_t from, int64_t when_ms,
                         uint32_t *out)
{
    struct run_slot entries[RUN_BLOCK_SLOTS];
    uint32_t count = entries_in(run, block) - from;
    int result = run_slots(run, block * RUN_BLOCK_SLOTS + from, count, true, entries);

    if (result < 0)
        return result;
    *out = from;
    while (*out - from < count && entries[*out - from].when_ms < when_ms)
        ++*out;
    return 0;
}

int run_seek(const struct run *run, uint32_t first, uint32_t end, int64_t when_ms, uint32_t *out)
{
    uint32_t low = first, high = end;

    assert(first <= end && end <= run->footer.info.slots);
    /* Everything before `low` is below, everything from `high` on is not. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, block = middle / RUN_BLOCK_SLOTS;
        uint32_t block_first = block * RUN_BLOCK_SLOTS, at;
        uint32_t from = low > block_first ? low - block_first : 0, found;
        int result = seek_in_block(run, block, from, when_ms, &at);

        if (result < 0)
            return result;
        found = block_first + at;
        if (at == from)
            high = block_first + from;
        else if (at == entries_in(run, block) && found < high)
            low = found;
        else
            low = high = found < high ? found : high;
    }
    *out = low;
    return 0;
}

/* ---- records ---- */

bool run_record_is_whole(const struct run *run, uint32_t slot, const struct run_slot *entry,
                         const char *bytes)
{
    struct slice record = slice_make(bytes, entry->bytes);
    struct wire_in in = wire_in_make(slice_make(bytes + entry->bytes, RUN_CHECK_BYTES));

    return wire_take_u32(&in) ==
               run_record_check(run->seed, run->footer.info.number, slot, record) &&
           record_next(record) == record.len;
}

int run_read(const struct run *run, uint32_t slot, uint32_t bytes, bool may_block,
             struct buffer *scratch, struct slice *out)
{
    struct run_slot entry;
    size_t len;
    char *into;
    int result;

    if (slot >= run->footer.info.slots)
        return -EBADMSG;
    result = run_slots(run, slot, 1, may_block, &entry);
    if (result < 0)
        return result;
    if (bytes && bytes != entry.bytes)
        return -EBADMSG;
    buffer_clear(scratch);
    len = (size_t)entry.bytes + RUN_CHECK_BYTES;
    into = buffer_reserve(scratch, len);
    if (!into)
        return -ENOMEM;
    result = fs_pread_whole(run->fs, run->fd, may_block, into, len, (int64_t)entry.offset);
    if (result < 0)
        return result;
    if (!run_record_is_whole(run, slot, &entry, into))
        return -EBADMSG;
    scratch->len = entry.bytes;
    *out = slice_make(into, entry.bytes);
    return 0;
}

/* ---- giving back ---- */

/* The whole blocks that hold nothing but records of [first, end). Behind the last record of all is
 * nothing either. */
static int blocks_of(const struct run *run, uint32_t first, uint32_t end, uint64_t *from,
                     uint64_t *to)
{
    struct run_slot entry;
    int result = run_slots(run, first, 1, true, &entry);

    if (result < 0)
        return result;
    *from = run_round_up(entry.offset);
    *to = run->footer.directory_at;
    if (end < run->footer.info.slots) {
        result = run_slots(run, end, 1, true, &entry);
        *to = entry.offset / RUN_BLOCK_BYTES * RUN_BLOCK_BYTES;
    }
    return result;
}

static int punch(const struct run *run, uint64_t from, uint64_t to)
{
    const struct fs *fs = run->fs;
    char name[32], path[PATH_MAX];
    int fd, result;

    run_file_name(run->footer.info.number, name);
    run_path(run->dir, name, "", path);
    fd = fs->ops->open(fs->ctx, path, O_RDWR, 0);
    if (fd < 0)
        return fd;
    result = fs->ops->punch(fs->ctx, fd, (int64_t)from, (int64_t)(to - from));
    fs->ops->close(fs->ctx, fd);
    return result;
}

int run_punch(const struct run *run, uint32_t first, uint32_t end, uint64_t *freed)
{
    uint64_t from, to;
    int64_t before, after;
    int result;

    assert(first <= end && end <= run->footer.info.slots);
    *freed = 0;
    if (first == end)
        return 0;
    result = blocks_of(run, first, end, &from, &to);
    if (result < 0 || from >= to)
        return result;
    before = run_disk_bytes(run);
    result = punch(run, from, to);
    if (result < 0)
        return result == -EOPNOTSUPP ? 0 : result;
    after = run_disk_bytes(run);
    if (before > after && after >= 0)
        *freed = (uint64_t)(before - after);
    return 0;
}
