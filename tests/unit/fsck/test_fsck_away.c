/* The disk fails while fsck checks or repairs, at every moment, for a while or permanently; then it
 * works again, and nothing was lost. */
#include "fsck_rig_run.h"
#include "unit/claim.h"
#include "unit/stand_before.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

/* ---- a disk that goes away ---- */

static struct {
    int64_t calls_left; /* below 0: it stays */
    int64_t failed, fails_max;
    int error;
    bool spares_reads;
} disk = {.calls_left = -1, .fails_max = INT64_MAX};

static bool is_away(void)
{
    if (disk.calls_left < 0 || disk.failed == disk.fails_max)
        return false;
    if (disk.calls_left > 0) {
        disk.calls_left--;
        return false;
    }
    disk.failed++;
    errno = disk.error;
    return true;
}

#define READS (!disk.spares_reads && is_away())

STANDS_BEFORE(pread, ssize_t, -1, READS, (int fd, void *to, size_t len, off_t at),
              (fd, to, len, at))
STANDS_BEFORE(pread64, ssize_t, -1, READS, (int fd, void *to, size_t len, off_t at),
              (fd, to, len, at))
STANDS_BEFORE(open, int, -1, READS, (const char *path, int flags, mode_t mode), (path, flags, mode))
STANDS_BEFORE(open64, int, -1, READS, (const char *path, int flags, mode_t mode),
              (path, flags, mode))
STANDS_BEFORE(fstat, int, -1, READS, (int fd, struct stat *out), (fd, out))
STANDS_BEFORE(fstat64, int, -1, READS, (int fd, struct stat *out), (fd, out))
STANDS_BEFORE(opendir, DIR *, NULL, READS, (const char *path), (path))
STANDS_BEFORE(pwrite, ssize_t, -1, is_away(), (int fd, const void *from, size_t len, off_t at),
              (fd, from, len, at))
STANDS_BEFORE(pwrite64, ssize_t, -1, is_away(), (int fd, const void *from, size_t len, off_t at),
              (fd, from, len, at))
STANDS_BEFORE(rename, int, -1, is_away(), (const char *from, const char *to), (from, to))

/* Skips the sync: the disk need not survive a power cut here. */
int away_fdatasync(int fd) __asm__("fdatasync");
int away_fdatasync(int fd)
{
    (void)fd;
    return is_away() ? -1 : 0;
}

int away_fsync(int fd) __asm__("fsync");
int away_fsync(int fd)
{
    (void)fd;
    return is_away() ? -1 : 0;
}

/* No call waits for it. */
int away_nanosleep(const struct timespec *pause, struct timespec *left) __asm__("nanosleep");
int away_nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)pause;
    (void)left;
    return 0;
}

static void goes_away_after(int64_t calls, int error)
{
    disk.failed = 0;
    disk.error = error;
    disk.calls_left = calls;
}

static void comes_back(void)
{
    disk.calls_left = -1;
    disk.fails_max = INT64_MAX;
    disk.spares_reads = false;
}

/* ---- what is looked at ---- */

/* Jobs in runs that are looked for by slot and by key. */
static void more_life(void)
{
    set_state("b5", JOB_LEASED, slot(7, 2));
    finish("b6", slot(7, 3));
    finish("b7", slot(2, 7));
    set_totals(2 * JOBS + 1, 4);
}

enum { FAR = 16, CALLS_MAX = 4000 };

static int make_lively(void **state)
{
    int result = make_scene(state);

    write_log(more_life);
    return result;
}

static int remove_lively(void **state)
{
    comes_back();
    return remove_scene(state);
}

static bool reports_of_the_disk(void)
{
    for (uint64_t i = 0; i < scene.report.finding_count; i++)
        if (scene.report.finding[i].is_unread)
            return true;
    return false;
}

/* Checks while the disk fails; returns true if the check ended before. */
static bool look_while_it_goes(int64_t calls, int error, int *result)
{
    goes_away_after(calls, error);
    *result = fsck_run(scene.dir, &scene.report);
    comes_back();
    if (*result < 0)
        assert_true(*scene.report.error != '\0');
    return disk.failed == 0;
}

/* ---- claims ---- */

CLAIM_BETWEEN(a_disk_that_went_away_is_never_called_clean, make_lively, remove_lively)
{
    int result;

    for (int64_t calls = 0; !look_while_it_goes(calls, EIO, &result); calls++) {
        assert_true(calls < CALLS_MAX);
        if (result == 0 && !reports_of_the_disk())
            fail_msg("nothing was reported though call %ld failed", (long)calls);
    }
    assert_int_equal(scene.report.finding_count, 0);
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, FAR);
}

/* As long as one thing is tried; what was read in another way then is as good. */
CLAIM_BETWEEN(an_unreadable_place_is_reported_or_not_needed, make_lively, remove_lively)
{
    enum { TRIES = 4 };
    struct fsck_shard shard;
    bool is_through = false;
    int result;

    expect_clean();
    shard = scene.report.shard[0];
    for (int64_t calls = 0; !is_through; calls++) {
        assert_true(calls < CALLS_MAX);
        disk.fails_max = TRIES;
        is_through = look_while_it_goes(calls, EIO, &result);
        if (result == 0 && !reports_of_the_disk())
            assert_memory_equal(&scene.report.shard[0], &shard, sizeof shard);
    }
}

/* The rest of it has the number of runs. */
CLAIM_BETWEEN(nor_are_runs_without_their_catalog, make_lively, remove_lively)
{
    int result;

    forget_log();
    remove_file("CATALOG-00000005");
    for (int64_t calls = 0; !look_while_it_goes(calls, EIO, &result); calls++) {
        assert_true(calls < CALLS_MAX);
        if (result == 0 && scene.report.finding_count == 0)
            fail_msg("nothing was reported though call %ld failed", (long)calls);
    }
    examine();
    finding(0, "there are 2 runs, but no catalog");
}

/* Missing memory is not damage. */
CLAIM_BETWEEN(a_check_without_memory_is_not_clean_and_finds_no_damage, make_lively, remove_lively)
{
    int result;

    for (int64_t calls = 0; !look_while_it_goes(calls, ENOMEM, &result); calls++) {
        assert_true(calls < CALLS_MAX);
        if (result == 0 && scene.report.finding_count == 0)
            fail_msg("nothing was reported though call %ld failed", (long)calls);
    }
    expect_clean();
}

static void copy(const char *from, const char *into)
{
    char command[600];

    snprintf(command, sizeof command, "cd '%s' && rm -rf %s && cp -a %s %s", scene.root, into, from,
             into);
    assert_int_equal(system(command), 0);
}

/* Repairs while the disk fails; afterwards the unreadable part is there. */
static void repair_while_it_goes(void (*damage)(void), uint64_t cold)
{
    const struct fsck_options options = {.repair = true};
    bool is_through = false;

    damage();
    copy("data", "kept");
    for (int64_t calls = 0; !is_through; calls++) {
        int result;

        assert_true(calls < CALLS_MAX);
        copy("kept", "data");
        goes_away_after(calls, EIO);
        result = fsck_run_with(scene.dir, &options, &scene.report);
        comes_back();
        is_through = disk.failed == 0;
        assert_true(result == 0 || *scene.report.error);
        repair();
        expect_clean();
        assert_int_equal(scene.report.shard[0].cold, cold);
    }
}

static void lose_a_table(void)
{
    remove_file("00000001.keys");
}

CLAIM_BETWEEN(a_repair_that_the_disk_left_is_done_once_it_is_back, make_lively, remove_lively)
{
    repair_while_it_goes(lose_a_table, FAR);
}

/* ---- a disk that takes no more ---- */

struct moment {
    const char *text;
    int64_t writes; /* that it takes after it */
};

static void stop_writes(void *ctx, const char *text)
{
    const struct moment *moment = ctx;

    if (!strstr(text, moment->text))
        return;
    goes_away_after(moment->writes, ENOSPC);
    disk.spares_reads = true;
}

/* Repairs with limited space; returns true if it had room for all. */
static bool repair_with_room_for(int64_t writes, const char *text, const char *error)
{
    struct moment moment = {.text = text, .writes = writes};
    const struct fsck_options options = {
        .repair = true, .report_step = stop_writes, .ctx = &moment};
    int result;

    disk.failed = 0;
    result = fsck_run_with(scene.dir, &options, &scene.report);
    comes_back();
    if (disk.failed == 0)
        return true;
    assert_int_equal(result, -ENOSPC);
    assert_non_null(strstr(scene.report.error, error));
    assert_non_null(strstr(scene.report.error, "No space left"));
    assert_int_equal(scene.report.mended, 0);
    return false;
}

enum { LARGE = 20000 };

/* A table that takes more than one writing. */
static void make_large_run(void)
{
    struct record record = job_record("large", "", JOB_DELAYED, 100000, 1);
    char id[16], bytes[256];

    begin_run(3);
    record.job.body = slice_of("b");
    for (uint32_t i = 0; i < LARGE; i++) {
        snprintf(id, sizeof id, "%u", i);
        record.job.id = slice_of(id);
        assert_int_equal(run_writer_add(made.writer, SECTION_DELAYED, 100000, 1, slice_of("large"),
                                        0, slice_make(bytes, record_encode(&record, bytes))),
                         0);
    }
    made.slots = LARGE;
    catalog_topic_of(slice_of("large"))->stored[SECTION_DELAYED] = LARGE;
    end_run_without_table();
}

CLAIM_BETWEEN(a_table_that_has_no_room_is_written_by_the_next_repair, make_lively, remove_lively)
{
    make_large_run();
    for (int64_t writes = 0; writes < 4; writes++) {
        assert_false(repair_with_room_for(writes, "writes a new table of keys for run 3",
                                          "cannot write a table of keys"));
        assert_false(is_there("00000004.keys"));
    }
    repair();
    expect_all_mended();
    assert_int_equal(scene.report.shard[0].cold, FAR + LARGE);
}

CLAIMS_MAIN(NULL, NULL)
