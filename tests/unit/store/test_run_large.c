/* Runs of more slots than one write or one read covers: failures in each of their parts, and
 * scans that end early. */
#include "store/run.h"
#include "support/sim_fs.h"
#include "unit/claim.h"

#include <errno.h>
#include <string.h>

/* The directory by itself is larger than the write buffer. */
enum { SLOTS = 60000, SEED = 4711, RECORD_BYTES_MAX = 512, CALLS_MAX = 200 };

static struct sim_fs sim;
static int paces_left;

static int pace(void *ctx, size_t bytes)
{
    (void)ctx;
    assert_true(bytes > 0);
    return --paces_left < 0 ? -ECANCELED : 0;
}

static void start(void)
{
    sim_fs_init(&sim, 1);
    assert_int_equal(sim.fs.ops->mkdir(&sim, "run", 0700), 0);
}

static size_t record_of(char bytes[RECORD_BYTES_MAX])
{
    const struct record record = {.kind = RECORD_JOB,
                                  .origin = RECORD_CARRIED,
                                  .job = {.topic = slice_of("orders"),
                                          .id = slice_of("a"),
                                          .state = JOB_DELAYED,
                                          .priority = JOB_PRIORITY}};

    assert_true(record_bytes_max(&record) <= RECORD_BYTES_MAX);
    return record_encode(&record, bytes);
}

static int write_run(uint32_t slots, int (*paced)(void *ctx, size_t bytes))
{
    const struct run_writing writing = {
        .fs = &sim.fs, .dir = "run", .number = 1, .seed = SEED, .pace = paced};
    struct run_writer *writer;
    struct run_info info;
    char bytes[RECORD_BYTES_MAX];
    size_t len = record_of(bytes);
    int result = run_writer_new(&writing, &writer);

    if (result < 0)
        return result;
    for (uint32_t slot = 0; slot < slots; slot++)
        (void)run_writer_add(writer, SECTION_DELAYED, slot, slot, slice_of("orders"), 0,
                             slice_make(bytes, len));
    return run_writer_finish(writer, &info);
}

static struct run *open_run(void)
{
    char error[512] = "";
    struct run *run = NULL;

    if (run_open(&sim.fs, "run", 1, SEED, &run, error, sizeof error) < 0)
        fail_msg("%s", error);
    return run;
}

/* ---- writing ---- */

CLAIM(a_failure_in_any_part_is_reported_and_leaves_no_run)
{
    int result = -EIO, failed = 0;

    for (uint64_t io = 1; result < 0; io++) {
        start();
        sim.fail_at = sim.ios + io;
        sim.fail_errno = EIO;
        result = write_run(SLOTS, NULL);
        failed += result < 0;
        assert_true(result == 0 || result == -EIO);
        assert_int_equal(sim_fs_bytes(&sim, "run/00000001.run", NULL) != NULL, result == 0);
        assert_true(io < CALLS_MAX);
        if (result < 0)
            sim_fs_fini(&sim);
    }
    assert_true(failed > 8);
    sim_fs_fini(&sim);
}

CLAIM(the_pace_callback_may_cancel_at_any_time)
{
    int result = -ECANCELED, gave_up = 0;

    for (int paces = 0; result < 0; paces++) {
        start();
        paces_left = paces;
        result = write_run(SLOTS, pace);
        gave_up += result < 0;
        assert_true(result == 0 || result == -ECANCELED);
        assert_int_equal(sim.now.count, result == 0);
        sim_fs_fini(&sim);
    }
    assert_true(gave_up > 4);
}

/* ---- scans ---- */

struct looking {
    uint32_t wants_from, stop_before, stop_behind, given, next;
    uint32_t every; /* so many-th slot is wanted */
    bool is_empty;  /* some record was */
};

static int wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct looking *looking = ctx;

    assert_int_equal(entry->when_ms, slot);
    if (slot >= looking->stop_before)
        return -1;
    return slot >= looking->wants_from && slot % looking->every == 0;
}

static bool each(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    struct looking *looking = ctx;

    assert_true(slot >= looking->next && slot % looking->every == 0);
    assert_int_equal(entry->sequence, slot);
    looking->next = slot + 1;
    looking->given++;
    looking->is_empty |= record.len == 0;
    return slot < looking->stop_behind;
}

static int scan(const struct run *run, struct looking *looking, uint32_t *next)
{
    const struct run_scan how = {
        .first = 0, .end = SLOTS, .wants = wants, .each = each, .ctx = looking};

    return run_scan(run, &how, next);
}

static struct looking all(void)
{
    return (struct looking){.stop_before = SLOTS, .stop_behind = SLOTS, .every = 1};
}

/* Jobs that are far apart are read one group after the other. */
CLAIM(a_scan_ends_after_the_job_that_stops_it)
{
    static const uint32_t behind[] = {0, 1, 169, 170, 5000, 40000, SLOTS - 4};
    static const uint32_t every[] = {1, 3, 2000};
    struct run *run;
    uint32_t next;

    start();
    assert_int_equal(write_run(SLOTS, NULL), 0);
    run = open_run();
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
        for (size_t k = 0; k < sizeof every / sizeof *every; k++) {
            uint32_t last = (behind[i] + every[k] - 1) / every[k] * every[k];
            struct looking looking = all();

            looking.stop_behind = behind[i];
            looking.every = every[k];
            assert_int_equal(scan(run, &looking, &next), 0);
            assert_int_equal(next, last < SLOTS ? last + 1 : SLOTS);
            assert_int_equal(looking.given, (last < SLOTS ? last : SLOTS - 1) / every[k] + 1);
        }
    run_close(run);
    sim_fs_fini(&sim);
}

CLAIM(a_scan_stops_before_its_end_bound)
{
    struct looking looking = all();
    struct run *run;
    uint32_t next;

    start();
    assert_int_equal(write_run(SLOTS, NULL), 0);
    run = open_run();
    looking.stop_before = 54321;
    looking.wants_from = 54000;
    assert_int_equal(scan(run, &looking, &next), 0);
    assert_int_equal(next, 54321);
    assert_int_equal(looking.given, 321);
    run_close(run);
    sim_fs_fini(&sim);
}

/* A failed read of many is repeated one by one, including the directory. */
CLAIM(a_read_that_fails_once_costs_a_scan_nothing)
{
    struct run *run;
    uint32_t next;

    start();
    assert_int_equal(write_run(SLOTS, NULL), 0);
    run = open_run();
    for (uint64_t read = 1; read < 12; read++) {
        struct looking looking = all();

        sim.fail_read_at = sim.reads + read;
        sim.fail_errno = EIO;
        assert_int_equal(scan(run, &looking, &next), 0);
        assert_int_equal(next, SLOTS);
        assert_int_equal(looking.given, SLOTS);
        assert_false(looking.is_empty);
    }
    run_close(run);
    sim_fs_fini(&sim);
}

static uint64_t bad_from, bad_to; /* bytes of the file that cannot be read */

static ssize_t pread_around(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    if ((uint64_t)offset < bad_to && (uint64_t)offset + len > bad_from)
        return -EIO;
    return sim.fs.ops->pread(ctx, fd, into, len, offset);
}

/* The scan continues behind them on request, and may be ended in the middle of them. */
CLAIM(records_that_cannot_be_read_are_given_empty)
{
    struct fs_ops ops;
    struct fs fs = {.ops = &ops, .ctx = &sim};
    struct run_slot entry;
    struct run *run;
    char error[512];
    uint32_t next;

    start();
    assert_int_equal(write_run(SLOTS, NULL), 0);
    ops = *sim.fs.ops;
    ops.pread = pread_around;
    bad_from = bad_to = 0;
    assert_int_equal(run_open(&fs, "run", 1, SEED, &run, error, sizeof error), 0);
    assert_int_equal(run_slots(run, 777, 1, true, &entry), 0);
    bad_from = entry.offset;
    bad_to = bad_from + 1;
    for (int ends = 0; ends < 2; ends++) {
        struct looking looking = all();

        if (ends)
            looking.stop_behind = 777;
        assert_int_equal(scan(run, &looking, &next), 0);
        assert_true(looking.is_empty);
        assert_int_equal(looking.given, ends ? 778 : SLOTS);
        assert_int_equal(next, ends ? 778 : SLOTS);
    }
    run_close(run);
    sim_fs_fini(&sim);
}

CLAIM(a_directory_that_cannot_be_read_ends_the_scan_before_it)
{
    enum { BLOCK = 4096, BLOCK_SLOTS = 170, BAD_BLOCK = 5 };
    struct fs_ops ops;
    struct fs fs = {.ops = &ops, .ctx = &sim};
    struct looking looking = all();
    struct run_slot last;
    struct run *run;
    char error[512];
    uint32_t next;
    uint64_t directory_at;

    start();
    assert_int_equal(write_run(SLOTS, NULL), 0);
    ops = *sim.fs.ops;
    ops.pread = pread_around;
    bad_from = bad_to = 0;
    assert_int_equal(run_open(&fs, "run", 1, SEED, &run, error, sizeof error), 0);
    assert_int_equal(run_slots(run, SLOTS - 1, 1, true, &last), 0);
    directory_at = (last.offset + last.bytes + 4 + BLOCK - 1) / BLOCK * BLOCK;
    bad_from = directory_at + BAD_BLOCK * BLOCK;
    bad_to = bad_from + BLOCK;
    assert_int_equal(scan(run, &looking, &next), -EIO);
    assert_int_equal(next, BAD_BLOCK * BLOCK_SLOTS);
    assert_int_equal(looking.given, BAD_BLOCK * BLOCK_SLOTS);
    assert_int_equal(run_after_damage(run, next), (BAD_BLOCK + 1) * BLOCK_SLOTS);
    assert_int_equal(run_slots(run, next, 1, true, &last), -EIO);
    run_close(run);
    sim_fs_fini(&sim);
}

CLAIMS_MAIN(NULL, NULL)
