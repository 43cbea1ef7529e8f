/* A directory that is held: files are reached where it is, not where its path leads. */
#include "store/fs_dir.h"

#include "store/datadir.h"
#include "store/wal.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char home[96], aside[96];
static struct fs_dir *dir;
static struct fs fs;

static int make_home(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    snprintf(home, sizeof home, "%s/home", scratch_root);
    snprintf(aside, sizeof aside, "%s/aside", scratch_root);
    if (mkdir(home, 0700) < 0 || fs_dir_open(home, FS_DIR_ALONE, &dir) < 0)
        return -1;
    fs = (struct fs){.ops = fs_posix.ops, .ctx = dir};
    return 0;
}

static int remove_home(void **state)
{
    fs_dir_close(dir);
    dir = NULL;
    return scratch_teardown(state);
}

static const char *in(const char *where, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

static void make_file(const char *path)
{
    int fd = fs.ops->open(fs.ctx, path, O_RDWR | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    fs.ops->close(fs.ctx, fd);
}

static void count(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
}

static int count_names(const char *path)
{
    int names = 0;

    assert_int_equal(fs.ops->list(fs.ctx, path, count, &names), 0);
    return names;
}

CLAIM_BETWEEN(files_created_after_a_move_are_in_the_moved_directory, make_home, remove_home)
{
    assert_int_equal(fs.ops->mkdir(fs.ctx, in(home, "a"), 0700), 0);
    make_file(in(home, "a/before"));
    assert_true(fs_leads(&fs, home, -1));
    assert_int_equal(rename(home, aside), 0);
    assert_false(fs_leads(&fs, home, -1));
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(mkdir(in(home, "a"), 0700), 0);
    assert_false(fs_leads(&fs, in(home, "a"), -1));
    make_file(in(home, "a/after"));
    assert_int_equal(fs.ops->rename(fs.ctx, in(home, "a/after"), in(home, "a/new")), 0);
    assert_int_equal(fs.ops->unlink(fs.ctx, in(home, "a/before")), 0);
    assert_int_equal(fs.ops->mkdir(fs.ctx, in(home, "a/b"), 0700), 0);
    assert_int_equal(fs.ops->fsync_dir(fs.ctx, in(home, "a")), 0);
    assert_int_equal(count_names(in(home, "a")), 2);
    assert_int_equal(access(in(aside, "a/new"), F_OK), 0);
    assert_int_equal(access(in(aside, "a/b"), F_OK), 0);
    assert_int_equal(rmdir(in(home, "a")), 0); /* nothing came there */
    assert_int_equal(rmdir(home), 0);
    assert_int_equal(rename(aside, home), 0);
    assert_true(fs_leads(&fs, in(home, "a"), -1));
}

CLAIM_BETWEEN(paths_outside_the_directory_are_not_reachable, make_home, remove_home)
{
    static char name[400];

    assert_int_equal(fs.ops->open(fs.ctx, in(scratch_root, "other"), O_RDWR | O_CREAT, 0600),
                     -EXDEV);
    assert_int_equal(fs.ops->open(fs.ctx, in(aside, "other"), O_RDWR | O_CREAT, 0600), -EXDEV);
    assert_int_equal(fs.ops->open(fs.ctx, "other", O_RDWR | O_CREAT, 0600), -EXDEV);
    assert_int_equal(fs.ops->mkdir(fs.ctx, "/other", 0700), -EXDEV);
    assert_int_equal(fs.ops->unlink(fs.ctx, in(scratch_root, "home2/x")), -EXDEV);
    assert_int_equal(fs.ops->open(fs.ctx, in(home, "none/x"), O_RDWR | O_CREAT, 0600), -ENOENT);
    assert_int_equal(fs.ops->fsync_dir(fs.ctx, in(home, "none")), -ENOENT);
    memset(name, 'x', sizeof name - 1);
    assert_int_equal(fs.ops->fsync_dir(fs.ctx, in(home, name)), -ENAMETOOLONG);
    assert_false(fs_leads(&fs, in(home, "none"), -1));
    assert_true(fs_leads(&fs_posix, in(home, "none"), -1)); /* it is not held */
}

CLAIM_BETWEEN(a_moved_directory_and_its_subdirectories_stay_locked, make_home, remove_home)
{
    struct fs_dir *other;
    struct fs below;

    assert_int_equal(fs_dir_open(home, FS_DIR_SHARED, &other), -EBUSY);
    assert_int_equal(fs.ops->mkdir(fs.ctx, in(home, "a"), 0700), 0);
    make_file(in(home, "a/file"));
    assert_int_equal(mkdir(aside, 0700), 0);
    assert_int_equal(rename(in(home, "a"), in(aside, "a")), 0);
    assert_int_equal(fs_dir_open(aside, FS_DIR_ALONE, &other), 0);
    below = (struct fs){.ops = fs_posix.ops, .ctx = other};
    assert_int_equal(below.ops->open(other, in(aside, "a/file"), O_RDONLY, 0), -EBUSY);
    fs_dir_close(other);
    fs_dir_close(dir);
    dir = NULL;
    assert_int_equal(fs_dir_open(aside, FS_DIR_SHARED, &dir), 0);
    assert_int_equal(fs_dir_open(aside, FS_DIR_ALONE, &other), -EBUSY);
    assert_int_equal(fs_dir_open(aside, FS_DIR_SHARED, &other), 0);
    fs_dir_close(other);
}

/* ---- its syncs ---- */

static int syncs;
static int sync_error;

int counted_fsync(int fd) __asm__("fsync"); /* stands before the system's own */
int counted_fsync(int fd)
{
    syncs++;
    errno = sync_error;
    return sync_error ? -1 : (int)syscall(SYS_fsync, fd);
}

static int count_syncs(const char *path)
{
    int before = syncs;

    assert_int_equal(fs.ops->fsync_dir(fs.ctx, path), 0);
    return syncs - before;
}

/* An earlier process may have died before it synced the names, so the first sync is needed. */
CLAIM_BETWEEN(a_directory_is_synced_once_after_each_change_of_a_name, make_home, remove_home)
{
    assert_int_equal(mkdir(in(home, "old"), 0700), 0);
    assert_int_equal(count_syncs(home), 1);
    assert_int_equal(count_syncs(home), 0);
    assert_int_equal(count_syncs(in(home, "old")), 1);
    make_file(in(home, "old/file"));
    assert_int_equal(count_syncs(home), 0);
    assert_int_equal(count_syncs(in(home, "old")), 1);
    assert_int_equal(fs.ops->rename(fs.ctx, in(home, "old/file"), in(home, "file")), 0);
    assert_int_equal(count_syncs(home), 1);
    assert_int_equal(count_syncs(in(home, "old")), 1);
    assert_int_equal(fs.ops->unlink(fs.ctx, in(home, "file")), 0);
    assert_int_equal(count_syncs(home), 1);
    assert_int_equal(fs.ops->mkdir(fs.ctx, in(home, "old"), 0700), 0); /* it exists */
    assert_int_equal(count_syncs(home), 0);
    assert_int_equal(count_syncs(in(home, "old")), 0);
}

CLAIM_BETWEEN(a_directory_that_was_just_made_is_synced_with_its_first_name, make_home, remove_home)
{
    assert_int_equal(count_syncs(home), 1);
    assert_int_equal(fs.ops->mkdir(fs.ctx, in(home, "new"), 0700), 0);
    assert_int_equal(count_syncs(in(home, "new")), 0);
    assert_int_equal(count_syncs(home), 1);
    make_file(in(home, "new/file"));
    assert_int_equal(count_syncs(in(home, "new")), 1);
    assert_int_equal(count_syncs(in(home, "new")), 0);
}

CLAIM_BETWEEN(a_sync_that_failed_is_repeated, make_home, remove_home)
{
    sync_error = EIO;
    assert_int_equal(fs.ops->fsync_dir(fs.ctx, home), -EIO);
    sync_error = 0;
    assert_int_equal(count_syncs(home), 1);
}

/* ---- the log in it ---- */

static int64_t now_ms(struct clock *clock)
{
    (void)clock;
    return 5000;
}

static struct wal *open_log(void)
{
    char error[600] = "";
    const struct wal_options options = {.fs = &fs,
                                        .dir = in(home, "shard-00"),
                                        .file_bytes = 1 << 20,
                                        .batch_bytes_max = 1 << 18,
                                        .sync = WAL_SYNC_ALWAYS,
                                        .inner_ms = now_ms,
                                        .wall_ms = now_ms};
    struct wal *wal;

    if (wal_open(&options, NULL, NULL, &wal, NULL, error, sizeof error) < 0)
        fail_msg("%s", error);
    return wal;
}

static void commit_one(struct wal *wal)
{
    const struct record record = {.kind = RECORD_TOPIC,
                                  .topic = {.topic = slice_of("orders"), .exists = true}};

    assert_int_equal(wal_has_room(wal, record_bytes_max(&record), WAL_FOR_ANSWER), 0);
    wal_append(wal, &record);
    assert_true(wal_seal(wal));
    assert_int_equal(wal_commit(wal), 0);
    wal_committed(wal);
}

/* Whatever part of the path it is. */
CLAIM_BETWEEN(a_commit_reports_whether_its_path_leads_to_its_file, make_home, remove_home)
{
    static const char *const sections[] = {"", "/shard-00", "/shard-00/wal",
                                           "/shard-00/wal/00000001.log"};
    struct wal *wal = open_log();

    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char section[256];

        snprintf(section, sizeof section, "%s%s", home, sections[i]);
        commit_one(wal);
        assert_false(wal_is_moved(wal));
        assert_int_equal(rename(section, aside), 0);
        assert_false(wal_is_moved(wal)); /* not checked yet */
        commit_one(wal);
        assert_true(wal_is_moved(wal));
        assert_false(wal_look(wal));
        assert_int_equal(rename(aside, section), 0);
        assert_true(wal_is_moved(wal));
        assert_true(wal_look(wal));
        assert_false(wal_is_moved(wal));
    }
    wal_close(wal);
    wal_close(open_log());
}

/* Another file of the same name does not pass for it. */
CLAIM_BETWEEN(a_copy_in_its_place_is_another_file, make_home, remove_home)
{
    const char *file = in(home, "shard-00/wal/00000001.log");
    char command[600];
    struct wal *wal = open_log();

    commit_one(wal);
    snprintf(command, sizeof command, "cp -a '%s' '%s' && mv '%s' '%s'", file, aside, aside, file);
    assert_int_equal(system(command), 0);
    commit_one(wal);
    assert_true(wal_is_moved(wal));
    wal_close(wal);
}

/* With what was there before: nothing of what it had since is left. */
CLAIM_BETWEEN(a_copy_written_over_it_ends_it_before_it_writes_again, make_home, remove_home)
{
    char file[256], command[1200], copy[4096 * 3], is[sizeof copy];
    struct record record = {.kind = RECORD_TOPIC,
                            .topic = {.topic = slice_of("orders"), .exists = true}};
    struct wal *wal = open_log();
    int fd;

    snprintf(file, sizeof file, "%s/shard-00/wal/00000001.log", home);
    snprintf(command, sizeof command, "cp '%s' '%s' && sleep 0.02 && cp '%s' '%s'", file, aside,
             aside, file);
    commit_one(wal);
    assert_int_equal(system(command), 0);
    fd = open(file, O_RDONLY);
    assert_int_equal(pread(fd, copy, sizeof copy, 0), sizeof copy);
    assert_int_equal(wal_has_room(wal, record_bytes_max(&record), WAL_FOR_ANSWER), 0);
    wal_append(wal, &record);
    assert_true(wal_seal(wal));
    assert_int_equal(wal_commit(wal), -ESTALE);
    wal_committed(wal);
    assert_non_null(strstr(wal_error(wal), "another process has written to the log"));
    assert_int_equal(wal_has_room(wal, 100, WAL_FOR_ANSWER), -EIO);
    wal_close(wal);
    assert_int_equal(pread(fd, is, sizeof is, 0), sizeof is);
    assert_memory_equal(is, copy, sizeof is);
    close(fd);
    wal_close(open_log());
}

static int kinds_asked;

static bool count_has_steady_times(void *ctx, int fd)
{
    kinds_asked++;
    return fs_posix.ops->has_steady_times(ctx, fd);
}

CLAIM_BETWEEN(a_commit_does_not_ask_for_the_kind_of_file_system, make_home, remove_home)
{
    struct fs_ops ops = *fs.ops;

    ops.has_steady_times = count_has_steady_times;
    fs.ops = &ops;
    struct wal *wal = open_log();
    assert_true(kinds_asked > 0);
    kinds_asked = 0;
    commit_one(wal);
    commit_one(wal);
    assert_int_equal(kinds_asked, 0);
    wal_close(wal);
}

/* ---- the manifest in it ---- */

CLAIM_BETWEEN(a_manifest_that_was_exchanged_is_not_written_over, make_home, remove_home)
{
    struct datadir *datadir;
    struct datadir_manifest manifest;
    char error[512], command[600];
    const char *file = in(aside, "MANIFEST");

    assert_int_equal(datadir_open(aside, 1, &datadir, &manifest, error, sizeof error), 0);
    manifest.skew_ms = 1;
    assert_int_equal(datadir_write(datadir, &manifest), 0);
    snprintf(command, sizeof command, "cp '%s' '%s.copy' && mv '%s.copy' '%s'", file, file, file,
             file);
    assert_int_equal(system(command), 0);
    manifest.skew_ms = 2;
    assert_int_equal(datadir_write(datadir, &manifest), -ESTALE);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(datadir_write(datadir, &manifest), -ESTALE);
    assert_int_equal(access(file, F_OK), -1);
    datadir_close(datadir);
}

CLAIMS_MAIN(NULL, NULL)
