/* Files that a depot finds beside those of its catalog, and the space it reserves. */
#include "unit/claim.h"
#include "unit/fault_calls.h"

#include <fcntl.h>

#include "depot_crowd.h"

enum { RESERVE = 100000, ALLOCATIONS_MAX = 200 };

static struct crowd crowd;

static void make_file(const char *name)
{
    int fd = crowd.sim.fs.ops->open(&crowd.sim, name, O_RDWR | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fs_pwrite_whole(&crowd.sim.fs, fd, "left", 4, 0), 0);
    crowd.sim.fs.ops->close(&crowd.sim, fd);
}

static bool has_file(const char *name)
{
    return sim_fs_bytes(&crowd.sim, name, NULL) != NULL;
}

static int64_t size_of(const char *name)
{
    int64_t size = -1;

    sim_fs_bytes(&crowd.sim, name, &size);
    return size;
}

static int files(void)
{
    return crowd.sim.now.count;
}

/* Leaves orphans like a crash. */
static void leave_orphans(void)
{
    char name[64];

    for (int number = 5; number < 10; number++) {
        snprintf(name, sizeof name, "shard/run/%08d.run", number);
        make_file(name);
        snprintf(name, sizeof name, "shard/run/%08d.keys", number + 10);
        make_file(name);
    }
    make_file("shard/run/00000010.run.new");
    make_file("shard/run/CATALOG.tmp");
}

/* ---- orphans ---- */

CLAIM(strays_go_but_the_highest_run_s_number_stays_taken)
{
    crowd_start(&crowd);
    crowd_write(&crowd, 0, 10);
    leave_orphans();
    make_file("shard/run/notes.txt");
    crowd_reopen(&crowd);
    assert_int_equal(size_of("shard/run/00000009.run"), 0);
    assert_false(has_file("shard/run/00000005.run"));
    assert_false(has_file("shard/run/00000015.keys"));
    assert_false(has_file("shard/run/00000019.keys"));
    assert_false(has_file("shard/run/00000010.run.new"));
    assert_false(has_file("shard/run/CATALOG.tmp"));
    assert_true(has_file("shard/run/notes.txt")); /* not of tarry's making */
    crowd_write(&crowd, 10, 10);
    assert_true(has_file("shard/run/00000010.run"));
    assert_true(has_file("shard/run/00000020.keys"));
    assert_false(has_file("shard/run/00000009.run"));
    crowd_end(&crowd);
}

/* If the log over them is refused, the catalog may be the wrong one. */
CLAIM(nothing_goes_before_the_log_was_taken)
{
    int before;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, 10);
    leave_orphans();
    before = files();
    depot_close(crowd.depot);
    assert_int_equal(depot_open(&crowd.options, &crowd.depot, crowd.error, sizeof crowd.error), 0);
    depot_close(crowd.depot);
    assert_int_equal(files(), before);
    assert_int_equal(size_of("shard/run/00000009.run"), 4);
    assert_int_equal(crowd_open(&crowd), 0);
    assert_true(files() < before);
    crowd_end(&crowd);
}

/* The next opening takes the others. */
CLAIM(of_very_many_unfinished_files_some_go_at_a_time)
{
    char name[200];
    int before;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, 10);
    before = files();
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "shard/run/%d.tmp", i);
        make_file(name);
    }
    make_file("shard/run/a-name-longer-than-any-that-tarry-gives-a-file.tmp");
    crowd_reopen(&crowd);
    assert_true(files() > before + 1 && files() < before + 101);
    crowd_reopen(&crowd);
    assert_int_equal(files(), before + 1);
    crowd_end(&crowd);
}

/* The damaged catalog may name the only copy of the data. */
CLAIM(beside_a_damaged_newer_catalog_nothing_goes)
{
    int before;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, 10);
    depot_hold_back(crowd.depot, true);
    leave_orphans();
    make_file("shard/run/CATALOG-00000009");
    before = files();
    depot_hold_back(crowd.depot, false);
    crowd_reopen(&crowd);
    assert_int_equal(files(), before);
    crowd_end(&crowd);
}

static int list_fails(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                      void *each_ctx)
{
    static int calls;

    (void)ctx;
    if (calls++ == 0) /* the catalog's */
        return crowd.sim.fs.ops->list(&crowd.sim, path, each, each_ctx);
    return -EIO;
}

CLAIM(a_directory_that_cannot_be_listed_is_refused_by_name)
{
    struct fs_ops ops;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, 10);
    leave_orphans();
    depot_close(crowd.depot);
    ops = *crowd.sim.fs.ops;
    ops.list = list_fails;
    crowd.fs.ops = &ops;
    assert_int_equal(crowd_open(&crowd), -EIO);
    assert_string_equal(crowd.error, "'shard/run' cannot be read: Input/output error");
    crowd.fs = crowd.sim.fs;
    assert_true(has_file("shard/run/00000005.run"));
    assert_int_equal(crowd_open(&crowd), 0);
    crowd_end(&crowd);
}

/* The disk in memory has enough. */
static int quiet_open(void *ctx, const char *path, int flags, int mode)
{
    int64_t left = calls_left;
    int result;

    calls_left = -1;
    result = crowd.sim.fs.ops->open(ctx, path, flags, mode);
    calls_left = left;
    return result;
}

static int quiet_unlink(void *ctx, const char *path)
{
    int64_t left = calls_left;
    int result;

    calls_left = -1;
    result = crowd.sim.fs.ops->unlink(ctx, path);
    calls_left = left;
    return result;
}

CLAIM(without_memory_for_strays_the_opening_is_refused)
{
    struct fs_ops ops;
    int result = -ENOMEM, refused = 0;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, 10);
    leave_orphans();
    ops = *crowd.sim.fs.ops;
    ops.open = quiet_open;
    ops.unlink = quiet_unlink;
    crowd.fs.ops = &ops;
    depot_close(crowd.depot);
    for (int n = 0; result < 0; n++) {
        assert_true(n < ALLOCATIONS_MAX);
        calls_left = n;
        result = crowd_open(&crowd);
        calls_left = -1;
        refused += result < 0;
        assert_true(result == 0 || result == -ENOMEM);
        assert_true(result == 0 || strstr(crowd.error, "emory"));
    }
    assert_true(refused > 10);
    assert_int_equal(size_of("shard/run/00000009.run"), 0);
    assert_false(has_file("shard/run/00000005.run"));
    crowd.fs = crowd.sim.fs;
    crowd_end(&crowd);
}

/* ---- the reserve ---- */

static int paces;

static int give_up(void *ctx, size_t bytes)
{
    (void)ctx;
    (void)bytes;
    return --paces < 0 ? -1 : 0;
}

CLAIM(a_reserve_is_made_once_and_given_back_whole)
{
    uint64_t ios;

    crowd_start(&crowd);
    assert_int_equal(depot_make_reserve(crowd.depot, RESERVE), 0);
    assert_int_equal(size_of("shard/run/RESERVE"), RESERVE);
    ios = crowd.sim.ios;
    assert_int_equal(depot_make_reserve(crowd.depot, RESERVE / 2), 0);
    assert_int_equal(crowd.sim.ios, ios); /* looked at, not written */
    assert_int_equal(depot_make_reserve(crowd.depot, 2 * RESERVE), 0);
    assert_int_equal(size_of("shard/run/RESERVE"), 2 * RESERVE);
    make_file("shard/run/RESERVE.new"); /* one that was being made */
    depot_spend_reserve(crowd.depot);
    assert_false(has_file("shard/run/RESERVE") || has_file("shard/run/RESERVE.new"));
    depot_spend_reserve(crowd.depot); /* it is gone */
    crowd_end(&crowd);
}

/* A backup holds links to what is there: what would be freed later would not be. */
CLAIM(no_reserve_is_made_while_held_back)
{
    crowd_start(&crowd);
    depot_hold_back(crowd.depot, true);
    assert_int_equal(depot_make_reserve(crowd.depot, RESERVE), 0);
    assert_false(has_file("shard/run/RESERVE"));
    depot_hold_back(crowd.depot, false);
    assert_int_equal(depot_make_reserve(crowd.depot, RESERVE), 0);
    assert_true(has_file("shard/run/RESERVE"));
    crowd_end(&crowd);
}

CLAIM(a_reserve_that_cannot_be_made_leaves_no_file)
{
    uint64_t failed_before = 0;
    int result = -EIO;

    crowd_start(&crowd);
    crowd.options.pace = give_up;
    crowd_reopen(&crowd);
    for (int stop = 0; stop < 2; stop++) {
        int before = files();

        paces = stop;
        assert_int_equal(depot_make_reserve(crowd.depot, RESERVE), -ECANCELED);
        assert_int_equal(files(), before);
    }
    paces = 1000;
    for (uint64_t io = 1; result < 0; io++) { /* open to look, open, writes, sync, rename */
        crowd.sim.fail_at = crowd.sim.ios + io;
        crowd.sim.fail_errno = ENOSPC;
        result = depot_make_reserve(crowd.depot, RESERVE);
        failed_before += result < 0;
        assert_true(result == 0 || result == -ENOSPC);
        assert_int_equal(has_file("shard/run/RESERVE"), result == 0);
        assert_false(has_file("shard/run/RESERVE.new"));
        assert_true(io < 20);
        if (io == 1 && result == 0) { /* it was not found, and recreated */
            depot_spend_reserve(crowd.depot);
            result = -EIO;
        }
    }
    assert_true(failed_before >= 4);
    crowd_end(&crowd);
}

CLAIM(postponed_removals_happen_later)
{
    crowd_start(&crowd);
    crowd_write(&crowd, 0, 10);
    assert_false(depot_wants_tidying(crowd.depot));
    crowd_release(&crowd, 1, 0, 10, 1);
    depot_hold_back(crowd.depot, true);
    crowd_commit(&crowd);
    assert_false(depot_wants_tidying(crowd.depot)); /* not yet */
    assert_true(has_file("shard/run/00000001.run"));
    depot_hold_back(crowd.depot, false);
    assert_true(depot_wants_tidying(crowd.depot));
    assert_false(depot_wants_checkpoint(crowd.depot, false));
    depot_tidy(crowd.depot);
    assert_false(depot_wants_tidying(crowd.depot));
    assert_false(has_file("shard/run/00000001.run"));
    crowd_end(&crowd);
}

CLAIM(a_directory_with_an_overlong_name_is_rejected)
{
    static char dir[5000];

    crowd_start(&crowd);
    depot_close(crowd.depot);
    memset(dir, 'd', sizeof dir - 1);
    crowd.options.dir = dir;
    assert_int_equal(crowd_open(&crowd), -ENOMEM);
    assert_non_null(strstr(crowd.error, "name too long"));
    crowd_end(&crowd);
}

CLAIMS_MAIN(NULL, NULL)
