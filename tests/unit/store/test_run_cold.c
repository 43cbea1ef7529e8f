/* Parts of a new run that leave the page cache: only synced ones that are not read soon. */
#include "unit/claim.h"
#include "unit/seed.h"

#include "run_rig.h"

enum { COLD_MS = 500, SLOTS = 600, BODY_BYTES = 160000 };

static struct sim_fs sim;

/* The file of the writer, which writes it from its beginning to its end, and then its header again. */
static struct {
    int64_t written, synced, forgotten, forgotten_end;
    int file; /* whose */
    unsigned forgets;
    struct {
        int64_t from, to;
    } stretch[64];
} seen;

static ssize_t seen_pwrite(void *ctx, int fd, const void *from, size_t len, int64_t offset)
{
    ssize_t result = sim.fs.ops->pwrite(ctx, fd, from, len, offset);

    assert_true(result > 0);
    if (offset == 0 && seen.written > 0) {
        assert_true(result <= 4096);
        return result;
    }
    assert_int_equal(offset, seen.written);
    seen.file = fd;
    seen.written = offset + result;
    return result;
}

static int seen_fdatasync(void *ctx, int fd)
{
    assert_int_equal(fd, seen.file);
    seen.synced = seen.written;
    return sim.fs.ops->fdatasync(ctx, fd);
}

static void seen_forget(void *ctx, int fd, int64_t offset, int64_t bytes)
{
    assert_ptr_equal(ctx, &sim);
    assert_int_equal(fd, seen.file);
    assert_true(bytes > 0 && offset >= seen.forgotten_end); /* each but once */
    assert_true(offset + bytes <= seen.synced);
    assert_true(seen.forgets < sizeof seen.stretch / sizeof *seen.stretch);
    seen.stretch[seen.forgets].from = offset;
    seen.stretch[seen.forgets++].to = offset + bytes;
    seen.forgotten += bytes;
    seen.forgotten_end = offset + bytes;
}

static struct rig rig;

static struct run *write_seen(int64_t cold_ms, bool can_forget)
{
    static struct fs_ops ops;
    static struct fs fs;
    struct run_writing writing;
    struct run_info info;

    sim_fs_init(&sim, 1);
    ops = *sim.fs.ops;
    ops.pwrite = seen_pwrite;
    ops.fdatasync = seen_fdatasync;
    ops.forget = can_forget ? seen_forget : NULL;
    fs = (struct fs){.ops = &ops, .ctx = &sim};
    memset(&seen, 0, sizeof seen);
    writing = (struct run_writing){
        .fs = &fs, .dir = "s/run", .number = 1, .seed = RIG_SEED, .cold_ms = cold_ms};
    assert_int_equal(rig_write_paced(&rig, &writing, &info), 0);
    assert_int_equal(seen.synced, (int64_t)info.file_bytes);
    return rig_open(&sim.fs, 1);
}

static void close_seen(struct run *run)
{
    run_close(run);
    sim_fs_fini(&sim);
}

/* Checks that all of it is forgotten; the end of a record may be in the next part. */
static bool is_forgotten(const struct run_slot *slot)
{
    for (unsigned i = 0; i < seen.forgets; i++)
        if ((int64_t)slot->offset >= seen.stretch[i].from &&
            (int64_t)(slot->offset + slot->bytes) <= seen.stretch[i].to)
            return true;
    return false;
}

static int64_t end_of_records(const struct run *run)
{
    struct run_slot last;

    assert_int_equal(run_slots(run, run_info(run)->slots - 1, 1, true, &last), 0);
    return (int64_t)(last.offset + last.bytes);
}

CLAIM(only_synced_late_jobs_leave_the_cache)
{
    struct random random = seed_random(__func__);
    struct run *run;
    unsigned forgotten = 0;

    rig_init(&rig, &random, SLOTS, 1u << SECTION_DELAYED, BODY_BYTES);
    run = write_seen(COLD_MS, true);
    assert_true(seen.forgets > 0);
    assert_true(seen.forgotten_end <= end_of_records(run)); /* never the directory */
    for (uint32_t i = 0; i < rig.count; i++) {
        struct run_slot slot;

        assert_int_equal(run_slots(run, i, 1, true, &slot), 0);
        assert_true(slot.when_ms >= COLD_MS || !is_forgotten(&slot));
        forgotten += is_forgotten(&slot);
    }
    assert_true(forgotten > 20);
    close_seen(run);
    rig_fini(&rig);
}

CLAIM(nothing_leaves_the_cache_if_all_jobs_are_due_soon)
{
    struct random random = seed_random(__func__);

    rig_init(&rig, &random, SLOTS / 2, 1u << SECTION_DELAYED, BODY_BYTES);
    close_seen(write_seen(1000, true)); /* all are due before */
    assert_int_equal(seen.forgets, 0);
    close_seen(write_seen(0, true));
    assert_int_equal(seen.forgets, 0);
    close_seen(write_seen(1, false)); /* a file system that cannot */
    close_seen(write_seen(1, true));
    assert_true(seen.forgets > 0);
    rig_fini(&rig);
}

CLAIMS_MAIN(NULL, NULL)
