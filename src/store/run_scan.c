#include "store/run_private.h"

#include <errno.h>
#include <stdlib.h>

/*
 * The directory is read window by window, the records wanted of a window in groups of neighbours:
 * one read each.
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
    char *directory; /* bytes of the window */
    struct run_slot *entries;
    uint32_t *picks;               /* entries of the group */
    uint32_t window, window_count; /* first slot; slots that could be read */
    uint32_t pick_count;
    uint64_t from, to; /* what the group takes in the file */
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

/* One by one, so that what cannot be read takes no neighbours along. */
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

/* Where it does not fit the group, that goes first. */
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

/* Entries of slots from `next` on; window_count stays behind where some cannot be read. */
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
        if (single < 0) /* perhaps only one of them cannot be read */
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
