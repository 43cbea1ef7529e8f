/*
 * Any bytes as the file of a run: it opens or is refused, and every slot is read, or is damaged,
 * for every way to read it. A second time with corrected checksums, so that the code behind
 * them is also reached. Seeds: corpus/run, whole files.
 */
#include "fuzz/claim.h"
#include "job/wire.h"
#include "store/run_private.h"
#include "support/sim_fs.h"

#include <errno.h>
#include <fcntl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NUMBER = 7, SEED = 4711, SLOTS_MAX = 1 << 16 };

struct seen {
    const struct run *run;
    uint32_t next, whole;
};

static int wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct seen *seen = ctx;

    CLAIM("a record lies in the file",
          entry->offset + entry->bytes < run_info(seen->run)->file_bytes);
    CLAIM("its topic has a name", run_topic_name(seen->run, entry->topic).len <= 255);
    return slot % 3 != 1;
}

static bool each(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    struct seen *seen = ctx;

    CLAIM("slots come in order", slot >= seen->next);
    CLAIM("a record is whole or empty", record.len == 0 || record_next(record) == entry->bytes);
    seen->next = slot + 1;
    seen->whole += record.len > 0;
    return true;
}

static void read_all(const struct run *run)
{
    const struct run_info *info = run_info(run);
    uint32_t count = info->slots < SLOTS_MAX ? info->slots : SLOTS_MAX, next = 0, whole = 0, found;
    struct seen seen = {.run = run};
    struct run_scan scan = {.end = count, .wants = wants, .each = each, .ctx = &seen};
    bool has_gaps = false; /* a scan leaves out all of a block that is damaged anywhere */
    struct buffer scratch;

    buffer_init(&scratch, 1 << 26);
    for (uint32_t slot = 0; slot < count; slot++) {
        struct slice record;
        int result = run_read(run, slot, 0, slot % 2, &scratch, &record);

        CLAIM("a slot is read or damaged", result == 0 || result == -EBADMSG);
        CLAIM("it is of a part", run_section_of(run, slot) < SECTIONS);
        whole += result == 0 && slot % 3 != 1;
    }
    buffer_fini(&scratch);
    while (next < count) {
        int result = run_scan(run, &scan, &next);

        CLAIM("a scan ends or meets damage", result == 0 ? next == count : result == -EBADMSG);
        has_gaps = has_gaps || result < 0;
        scan.first = next = result < 0 ? run_after_damage(run, next) : next;
        if (scan.first > count)
            break;
    }
    CLAIM("both ways say the same", has_gaps ? seen.whole <= whole : seen.whole == whole);
    for (int section = 0; section < SECTIONS; section++)
        if (run_seek(run, info->sections[section].first,
                     info->sections[section].first + info->sections[section].count, 500,
                     &found) == 0)
            CLAIM("what is sought lies in the part",
                  found - info->sections[section].first <= info->sections[section].count);
}

/* Blocks are sealed where they should lie, and of the records those the directory names. */
static void set_right(char *file, size_t size)
{
    struct run_footer footer;
    size_t blocks = size / RUN_BLOCK_BYTES;

    for (size_t i = 0; i < blocks; i++)
        if (i == 0 || i + 1 == blocks)
            run_block_seal(SEED, NUMBER, i * RUN_BLOCK_BYTES, file + i * RUN_BLOCK_BYTES);
    if (blocks < 2 || size % RUN_BLOCK_BYTES ||
        !run_footer_decode(SEED, NUMBER, size, file + size - RUN_BLOCK_BYTES, &footer))
        return;
    for (size_t at = footer.directory_at; at < size; at += RUN_BLOCK_BYTES)
        run_block_seal(SEED, NUMBER, at, file + at);
    for (uint32_t slot = 0; slot < footer.info.slots && slot < SLOTS_MAX; slot++) {
        const char *entry = file + footer.directory_at +
                            (size_t)(slot / RUN_BLOCK_SLOTS) * RUN_BLOCK_BYTES +
                            (size_t)(slot % RUN_BLOCK_SLOTS) * RUN_ENTRY_BYTES;
        struct wire_in in = wire_in_make(slice_make(entry + 16, 8));
        uint64_t at = wire_take_u64(&in) & (RUN_FILE_BYTES_MAX - 1);
        size_t bytes;

        if (at >= footer.record_end)
            continue;
        bytes = record_next(slice_make(file + at, (size_t)(footer.record_end - at)));
        if (bytes && at + bytes + RUN_CHECK_BYTES <= footer.record_end)
            wire_put_u32(file + at + bytes,
                         run_record_check(SEED, NUMBER, slot, slice_make(file + at, bytes)));
    }
}

static void run_bytes(const uint8_t *data, size_t size, bool right)
{
    struct sim_fs sim;
    struct run *run = NULL;
    char error[512] = "", *file;
    size_t done = 0;
    int fd, result;

    if (right) /* else most inputs end at their size */
        size = size / RUN_BLOCK_BYTES * RUN_BLOCK_BYTES;
    sim_fs_init(&sim, 1);
    fd = sim.fs.ops->open(&sim, "s/run/00000007.run", O_RDWR | O_CREAT, 0600);
    while (done < size) {
        ssize_t put = sim.fs.ops->pwrite(&sim, fd, data + done, size - done, (int64_t)done);

        CLAIM("the disk takes it", put > 0);
        done += (size_t)put;
    }
    sim.fs.ops->close(&sim, fd);
    file = sim_fs_bytes(&sim, "s/run/00000007.run", NULL);
    if (right && size)
        set_right(file, size);
    result = run_open(&sim.fs, "s/run", NUMBER, SEED, &run, error, sizeof error);
    CLAIM("it opens or says why not", result == 0 ? !*error : *error != 0);
    CLAIM("it is damaged or of a newer version",
          result == 0 || result == -EBADMSG || result == -EPROTONOSUPPORT);
    if (run)
        read_all(run);
    run_close(run);
    sim_fs_fini(&sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_bytes(data, size, false);
    run_bytes(data, size, true);
    return 0;
}
