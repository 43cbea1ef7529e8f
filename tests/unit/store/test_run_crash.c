
#include "unit/claim.h"

#include "run_rig.h"
#include "unit/seed.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run is there whole or not at all, whatever happens while it is written. */

#define PATH "s/run/00000007.run"
enum { ALL_PARTS = (1 << SECTIONS) - 1 };

/* Checks that the run opens, and all of it is correct. */
static bool is_whole(const struct rig *rig, const struct fs *fs)
{
    struct buffer scratch;
    char error[512];
    struct run *run;
    int result = run_open(fs, "s/run", 7, RIG_SEED, &run, error, sizeof error);

    if (result == -ENOENT)
        return false;
    if (result < 0)
        fail_msg("%s", error);
    buffer_init(&scratch, 4 << 20);
    assert_int_equal(run_info(run)->slots, rig->count);
    for (uint32_t i = 0; i < rig->count; i++)
        assert_int_equal(rig_check_slot(rig, run, i, &scratch), 0);
    buffer_fini(&scratch);
    run_close(run);
    return true;
}

/* Crash at I/O `n` (0: behind the last); the I/Os it took. */
static uint64_t crash_at(const struct rig *rig, uint64_t seed, uint64_t n, enum sim_damage damage)
{
    struct run_info info;
    struct sim_fs sim;
    uint64_t ios;
    int result;

    sim_fs_init(&sim, seed);
    sim.crash_at = n;
    result = rig_write(rig, &sim.fs, 7, &info);
    assert_true(result == 0 || result == -EIO);
    ios = sim.ios;
    sim_fs_crash(&sim, damage);
    if (result == 0)
        assert_true(is_whole(rig, &sim.fs));
    else
        is_whole(rig, &sim.fs); /* or not there; no third */
    /* Leftovers do no harm. */
    assert_int_equal(rig_write(rig, &sim.fs, 7, &info), 0);
    assert_true(is_whole(rig, &sim.fs));
    sim_fs_fini(&sim);
    return ios;
}

static void crash_everywhere(struct random *random, uint32_t count, size_t body_bytes_max)
{
    struct rig rig;

    rig_init(&rig, random, count, ALL_PARTS, body_bytes_max);
    for (int damage = 1; damage <= SIM_DAMAGES; damage++)
        for (int round = 0; round < 2; round++) {
            uint64_t seed = random_next(random);
            uint64_t ios = crash_at(&rig, seed, 0, (enum sim_damage)damage);

            assert_true(ios >= 5);
            for (uint64_t n = 1; n <= ios; n++)
                crash_at(&rig, seed, n, (enum sim_damage)damage);
        }
    rig_fini(&rig);
}

CLAIM(a_power_cut_leaves_a_whole_or_no_run)
{
    struct random random = seed_random(__func__);

    crash_everywhere(&random, 200, 0);
    crash_everywhere(&random, 40, 100000); /* several portions */
}

/* ---- faults ---- */

static uint64_t fail_at(const struct rig *rig, uint64_t n, bool for_ever, int with)
{
    struct run_info info;
    struct sim_fs sim;
    uint64_t ios;
    int result;

    sim_fs_init(&sim, 1);
    sim.fail_at = n;
    sim.fail_for_ever = for_ever;
    sim.fail_errno = with;
    result = rig_write(rig, &sim.fs, 7, &info);
    ios = sim.ios;
    if (n == 0 || result == 0) {
        assert_true(is_whole(rig, &sim.fs));
        assert_int_equal(sim.now.count, 1);
    } else {
        assert_int_equal(result, -with);
        if (!for_ever) /* then the file could be removed */
            assert_int_equal(sim.now.count, 0);
        sim.fail_at = 0;
        assert_int_equal(rig_write(rig, &sim.fs, 7, &info), 0);
        assert_true(is_whole(rig, &sim.fs));
    }
    for (int i = 0; i < SIM_FDS_MAX; i++)
        assert_null(sim.fds[i]);
    sim_fs_fini(&sim);
    return ios;
}

CLAIM(every_io_fails_once_and_for_ever)
{
    struct random random = seed_random(__func__);
    struct rig rig;
    uint64_t ios;

    rig_init(&rig, &random, 40, ALL_PARTS, 100000);
    ios = fail_at(&rig, 0, false, EIO);
    for (uint64_t n = 1; n <= ios; n++) {
        fail_at(&rig, n, false, EIO);
        fail_at(&rig, n, true, EIO);
        fail_at(&rig, n, false, ENOSPC);
        fail_at(&rig, n, true, ENOSPC);
    }
    rig_fini(&rig);
}

CLAIM(a_full_disk_leaves_no_partial_run)
{
    struct random random = seed_random(__func__);
    struct run_info info;
    struct rig rig;

    rig_init(&rig, &random, 40, ALL_PARTS, 100000);
    for (int64_t bytes = 1; bytes < 2 << 20; bytes += 300000) {
        struct sim_fs sim;

        sim_fs_init(&sim, random_next(&random));
        sim.bytes_max = bytes;
        if (rig_write(&rig, &sim.fs, 7, &info) < 0)
            assert_int_equal(sim.now.count, 0);
        sim_fs_fini(&sim);
    }
    rig_fini(&rig);
}

/* ---- pace ---- */

struct pace {
    size_t bytes, largest;
    uint32_t calls, give_up_at;
    const struct sim_fs *sim;
};

static int keep_pace(void *ctx, size_t bytes)
{
    struct pace *pace = ctx;

    pace->bytes += bytes;
    pace->largest = bytes > pace->largest ? bytes : pace->largest;
    return ++pace->calls == pace->give_up_at ? -ECANCELED : 0;
}

CLAIM(the_pace_callback_gets_every_byte_and_may_cancel)
{
    struct random random = seed_random(__func__);
    struct rig rig;

    rig_init(&rig, &random, 30, ALL_PARTS, 1 << 20);
    for (uint32_t n = 0, calls = 0; n <= calls; n++) {
        struct sim_fs sim;
        struct pace pace = {.give_up_at = n};
        struct run_info info;
        struct run_writing writing = {.fs = &sim.fs,
                                      .dir = "s/run",
                                      .number = 7,
                                      .seed = RIG_SEED,
                                      .pace = keep_pace,
                                      .ctx = &pace};

        sim_fs_init(&sim, random_next(&random));
        if (n == 0) {
            assert_int_equal(rig_write_paced(&rig, &writing, &info), 0);
            assert_int_equal(pace.bytes, info.file_bytes);
            assert_true(pace.largest <= 1 << 20);
            assert_true(sim.syncs >= info.file_bytes >> 23); /* every 8 MiB, and at the end */
            calls = pace.calls;
        } else {
            assert_int_equal(rig_write_paced(&rig, &writing, &info), -ECANCELED);
            assert_int_equal(sim.now.count, 0);
        }
        sim_fs_fini(&sim);
    }
    rig_fini(&rig);
}

CLAIM(an_abandoned_run_leaves_nothing)
{
    struct random random = seed_random(__func__);
    struct run_writer *writer;
    struct sim_fs sim;
    struct rig rig;

    sim_fs_init(&sim, 1);
    rig_init(&rig, &random, 1, ALL_PARTS, 0);
    assert_int_equal(
        run_writer_new(
            &(struct run_writing){.fs = &sim.fs, .dir = "s/run", .number = 7, .seed = RIG_SEED},
            &writer),
        0);
    assert_int_equal(run_writer_add(writer, rig.slots->section, rig.slots->when_ms, 1,
                                    slice_of(rig.slots->topic), rig.slots->group,
                                    slice_make(rig.slots->record, rig.slots->bytes)),
                     0);
    assert_int_equal(sim.now.count, 1);
    run_writer_abandon(writer);
    assert_int_equal(sim.now.count, 0);
    run_writer_abandon(NULL);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

/* ---- our own mistakes ---- */

/* Returns true if a writer that is given `second` after `first` stops the program. */
static bool stops(const struct rig_slot *first, const struct rig_slot *second)
{
    const struct rig_slot *slots[] = {first, second};
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct run_writing writing = {.dir = "s/run", .number = 7, .seed = RIG_SEED};
        struct run_writer *writer;
        struct sim_fs sim;

        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        sim_fs_init(&sim, 1);
        writing.fs = &sim.fs;
        run_writer_new(&writing, &writer);
        for (int i = 0; i < 2; i++)
            run_writer_add(writer, slots[i]->section, slots[i]->when_ms, slots[i]->sequence,
                           slice_of(slots[i]->topic), slots[i]->group,
                           slice_make(slots[i]->record, slots[i]->bytes));
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

CLAIM(the_order_is_asserted)
{
    struct random random = seed_random(__func__);
    struct rig_slot one, other;
    struct rig rig;

    rig_init(&rig, &random, 1, 1u << SECTION_RETRYING, 0);
    one = other = rig.slots[0];
    assert_false(stops(&one, &other));
    other.section = SECTION_DELAYED;
    assert_true(stops(&one, &other));
    assert_false(stops(&other, &one));
    other = one;
    other.when_ms++;
    assert_true(stops(&other, &one));
    assert_false(stops(&one, &other));
    other = one;
    one.sequence = 4;
    other.sequence = 5;
    assert_true(stops(&other, &one));
    assert_false(stops(&one, &other));
    rig_fini(&rig);
}

CLAIMS_MAIN(NULL, NULL)
