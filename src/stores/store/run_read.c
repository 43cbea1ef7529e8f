/* Slots and records of a run, individually and in large reads; punching of dead ranges (run.h). */
#include "store/run_private.h"

#include "job/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

enum { READ_BLOCKS = 8 }; /* number of blocks of the directory read at a time, on the stack */

/* ---- the directory ---- */

static bool entry_is_sound(const struct run *run, const struct run_slot *entry, uint64_t end)
{
    return entry->offset >= RUN_BLOCK_BYTES && end <= run->footer.record_end &&
           end > entry->offset + RUN_CHECK_BYTES &&
           end - entry->offset <= (uint64_t)RUN_RECORD_BYTES_MAX + RUN_CHECK_BYTES &&
           entry->topic < run->footer.info.topics;
}

/* Returns the number of entries in the block. */
static uint32_t entries_in(const struct run *run, uint32_t block)
{
    uint32_t left = run->footer.info.slots - block * RUN_BLOCK_SLOTS;

    return left < RUN_BLOCK_SLOTS ? left : RUN_BLOCK_SLOTS;
}

static uint64_t block_offset(const struct run *run, uint32_t block)
{
    return run->footer.directory_at + (uint64_t)block * RUN_BLOCK_BYTES;
}

/* Decodes the entries [at, at + count) of the directory's block `block` from `bytes`. Returns
 * -EBADMSG if the block is damaged. */
static int run_block_slots(const struct run *run, uint32_t block, const char *bytes, uint32_t at,
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
        uint64_t when, sequence, place, end;

        if (i + 1 < entries)
            next = entry + RUN_ENTRY_BYTES + 16;
        when = wire_take_u64(&in);
        sequence = wire_take_u64(&in);
        out->when_ms = (int64_t)(when & ((UINT64_C(1) << RUN_WHEN_BITS) - 1));
        out->sequence = sequence & ((UINT64_C(1) << RUN_SEQUENCE_BITS) - 1);
        out->group = (uint32_t)(when >> RUN_WHEN_BITS | sequence >> RUN_SEQUENCE_BITS
                                                                        << (64 - RUN_WHEN_BITS));
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

/* Finds the first entry of the block, from `from` on, whose when is not below `when_ms`; returns
 * entries_in if all are below. */
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
    /* Invariant: everything before `low` is below, everything from `high` on is not. */
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

/* Checks the slot's record, which is at `bytes` with its checksum. */
static bool run_record_is_whole(const struct run *run, uint32_t slot, const struct run_slot *entry,
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

/* ---- punching ---- */

/* Returns the complete blocks that contain only records of [first, end). The space after the last
 * record of the run counts as part of it. */
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

/*
 * The directory is read in windows. The records requested of a window are read in groups of
 * neighbors, with one read per group.
 */

enum {
    WINDOW_BLOCKS = 32,
    WINDOW_SLOTS = WINDOW_BLOCKS * RUN_BLOCK_SLOTS,
    GROUP_BYTES = 1 << 20, /* a single record may be larger */
    GAP_BYTES = 16 << 10   /* reading over it costs less than a second read */
};

struct scanning {
    const struct run *run;
    const struct run_scan *scan;
    char *directory; /* blocks of the window */
    struct run_slot *entries;
    uint32_t *picks;               /* entries of the group */
    uint32_t window, window_count; /* first slot; number of readable slots */
    uint32_t pick_count;
    uint64_t from, to; /* the group's range in the file */
    struct buffer records;
    uint32_t next;
    bool stopped;
};

/* ---- groups ---- */

static void give(struct scanning *scanning, uint32_t pick, const char *bytes)
{
    const struct run_slot *entry = &scanning->entries[pick];
    uint32_t slot = scanning->window + pick;
    struct slice record = {0};

    if (bytes && run_record_is_whole(scanning->run, slot, entry, bytes))
        record = slice_make(bytes, entry->bytes);
    scanning->next = slot + 1;
    if (!scanning->scan->each(scanning->scan->ctx, slot, entry, record))
        scanning->stopped = true;
}

static int read_range(struct scanning *scanning, uint64_t from, uint64_t to, char **into)
{
    const struct run *run = scanning->run;

    buffer_clear(&scanning->records);
    *into = buffer_reserve(&scanning->records, (size_t)(to - from));
    if (!*into)
        return -ENOMEM;
    return fs_pread_whole(run->fs, run->fd, true, *into, (size_t)(to - from), (int64_t)from);
}

/* Reads records individually, so that an unreadable one does not affect its neighbors. */
static int give_singly(struct scanning *scanning)
{
    for (uint32_t i = 0; i < scanning->pick_count && !scanning->stopped; i++) {
        const struct run_slot *entry = &scanning->entries[scanning->picks[i]];
        char *bytes;
        int result = read_range(scanning, entry->offset,
                                entry->offset + entry->bytes + RUN_CHECK_BYTES, &bytes);

        if (result == -ENOMEM) {
            scanning->next = scanning->window + scanning->picks[i];
            return result;
        }
        give(scanning, scanning->picks[i], result < 0 ? NULL : bytes);
    }
    return 0;
}

static int give_group(struct scanning *scanning)
{
    char *bytes;
    int result;

    if (scanning->pick_count == 0)
        return 0;
    result = read_range(scanning, scanning->from, scanning->to, &bytes);
    if (result == 0)
        for (uint32_t i = 0; i < scanning->pick_count && !scanning->stopped; i++) {
            uint32_t pick = scanning->picks[i];

            give(scanning, pick, bytes + (scanning->entries[pick].offset - scanning->from));
        }
    else
        result = give_singly(scanning);
    scanning->pick_count = 0;
    return result;
}

/* Adds an entry to the group. If it does not fit, the group is read and passed on first. */
static int pick(struct scanning *scanning, uint32_t at)
{
    const struct run_slot *entry = &scanning->entries[at];
    uint64_t end = entry->offset + entry->bytes + RUN_CHECK_BYTES;
    int result = 0;

    if (scanning->pick_count &&
        (entry->offset < scanning->to || entry->offset - scanning->to > GAP_BYTES ||
         end - scanning->from > GROUP_BYTES))
        result = give_group(scanning);
    if (result < 0 || scanning->stopped)
        return result;
    if (scanning->pick_count == 0)
        scanning->from = entry->offset;
    scanning->to = end;
    scanning->picks[scanning->pick_count++] = at;
    return 0;
}

/* ---- windows ---- */

/* Reads the entries of slots from `next` on. window_count is smaller if some cannot be read. */
static int read_window(struct scanning *scanning)
{
    const struct run *run = scanning->run;
    uint32_t slot = scanning->next, end = scanning->scan->end;
    uint32_t block = slot / RUN_BLOCK_SLOTS, blocks = (end - 1) / RUN_BLOCK_SLOTS - block + 1;
    uint64_t offset = run->footer.directory_at + (uint64_t)block * RUN_BLOCK_BYTES;
    int result, single;

    blocks = blocks < WINDOW_BLOCKS ? blocks : WINDOW_BLOCKS;
    scanning->window = slot;
    scanning->window_count = 0;
    result = fs_pread_whole(run->fs, run->fd, true, scanning->directory,
                            (size_t)blocks * RUN_BLOCK_BYTES, (int64_t)offset);
    single = result;
    for (uint32_t i = 0; i < blocks; i++) {
        char *bytes = scanning->directory + (size_t)i * RUN_BLOCK_BYTES;
        uint32_t at = slot % RUN_BLOCK_SLOTS, some = RUN_BLOCK_SLOTS - at;

        some = end - slot < some ? end - slot : some;
        if (single < 0) /* perhaps only one block cannot be read */
            result = fs_pread_whole(run->fs, run->fd, true, bytes, RUN_BLOCK_BYTES,
                                    (int64_t)(offset + (uint64_t)i * RUN_BLOCK_BYTES));
        if (result == 0)
            result = run_block_slots(run, block + i, bytes, at, some,
                                     scanning->entries + scanning->window_count);
        if (result < 0)
            return result;
        scanning->window_count += some;
        slot += some;
    }
    return 0;
}

static int scan_window(struct scanning *scanning)
{
    const struct run_scan *scan = scanning->scan;
    int result = 0, wanted = 0;
    uint32_t at = 0;

    for (; result == 0 && !scanning->stopped && at < scanning->window_count; at++) {
        wanted = scan->wants(scan->ctx, scanning->window + at, &scanning->entries[at]);
        if (wanted < 0)
            break;
        if (wanted)
            result = pick(scanning, at);
    }
    if (result == 0 && !scanning->stopped)
        result = give_group(scanning);
    if (result < 0 || scanning->stopped)
        return result;
    scanning->next = scanning->window + at;
    scanning->stopped = wanted < 0;
    return 0;
}

static bool scanning_init(struct scanning *scanning, const struct run *run,
                          const struct run_scan *scan)
{
    uint32_t slots = scan->end - scan->first;
    uint32_t blocks = run_directory_blocks(slots) + 1;

    blocks = blocks < WINDOW_BLOCKS ? blocks : WINDOW_BLOCKS;
    slots = slots < WINDOW_SLOTS ? slots : WINDOW_SLOTS;
    *scanning = (struct scanning){.run = run, .scan = scan, .next = scan->first};
    buffer_init(&scanning->records, (size_t)RUN_RECORD_BYTES_MAX + RUN_CHECK_BYTES);
    scanning->directory = malloc((size_t)blocks * RUN_BLOCK_BYTES);
    scanning->entries = malloc(slots * sizeof *scanning->entries);
    scanning->picks = malloc(slots * sizeof *scanning->picks);
    return scanning->directory && scanning->entries && scanning->picks;
}

int run_scan(const struct run *run, const struct run_scan *scan, uint32_t *next)
{
    struct scanning scanning;
    int result = 0;

    assert(scan->first <= scan->end && scan->end <= run->footer.info.slots);
    *next = scan->first;
    if (scan->first == scan->end)
        return 0;
    if (!scanning_init(&scanning, run, scan))
        result = -ENOMEM;
    while (result == 0 && !scanning.stopped && scanning.next < scan->end) {
        int unread = read_window(&scanning);

        result = scan_window(&scanning);
        if (result == 0 && !scanning.stopped)
            result = unread;
    }
    *next = scanning.next;
    free(scanning.directory);
    free(scanning.entries);
    free(scanning.picks);
    buffer_fini(&scanning.records);
    return result;
}
