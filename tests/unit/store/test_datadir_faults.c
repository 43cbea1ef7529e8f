/* A data directory whose files cannot be read or written, or are foreign: each is reported, and
 * nothing is lost by trying. */
#include "unit/fault_calls.h"
#include "unit/scratch.h"

#include "store/datadir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALLS_MAX = 60 };

static char dir[128], error[512];
static struct datadir_manifest manifest;

static int make_root(void **state)
{
    int result = scratch_setup(state);
    snprintf(dir, sizeof dir, "%s/data", scratch_root);
    *error = '\0';
    return result;
}

static int remove_root(void **state)
{
    calls_left = -1;
    return scratch_teardown(state);
}

static int try_open(struct datadir **out)
{
    *out = NULL;
    *error = '\0';
    return datadir_open(dir, 0, out, &manifest, error, sizeof error);
}

static void open_and_close(void)
{
    struct datadir *datadir;

    if (try_open(&datadir) < 0)
        fail_msg("%s", error);
    datadir_close(datadir);
}

static void put_file(const char *name, const char *bytes, size_t len)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, 0), len);
    close(fd);
}

/* ---- claims ---- */

/* Opens a new directory and an existing one. */
static void every_failed_call_is_reported_and_the_next_open_succeeds(void **state)
{
    int reported = 0;

    (void)state;
    for (int exists = 0; exists < 2; exists++) {
        bool done = false;
        uint64_t hash_seed = manifest.hash_seed;

        for (int n = 0; !done; n++) {
            struct datadir *datadir;
            int result;

            failed = 0;
            calls_left = n;
            result = try_open(&datadir);
            calls_left = -1;
            done = failed == 0;
            assert_true(n < CALLS_MAX);
            assert_int_equal(*error != '\0', result < 0);
            assert_int_equal(datadir != NULL, result == 0);
            reported += result < 0;
            datadir_close(datadir);
            if (!exists && !done)
                assert_int_equal(remove_root(NULL), 0);
            if (!exists && !done)
                make_root(NULL);
            if (exists) {
                open_and_close();
                assert_true(manifest.hash_seed == hash_seed); /* and it is the same still */
            }
        }
    }
    assert_true(reported > 8);
}

static void the_manifest_is_replaced_atomically(void **state)
{
    struct datadir *datadir;
    int result = -1, reported = 0;

    (void)state;
    assert_int_equal(try_open(&datadir), 0);
    for (int n = 0; result < 0; n++) {
        struct datadir_manifest next = manifest, found;
        struct datadir *again;

        next.skew_ms = 1000 + n;
        calls_left = n;
        result = datadir_write(datadir, &next);
        calls_left = -1;
        reported += result < 0;
        datadir_close(datadir);
        assert_int_equal(try_open(&again), 0);
        found = manifest;
        assert_true(found.skew_ms == next.skew_ms || (result < 0 && found.skew_ms < 1000 + n));
        datadir = again;
    }
    assert_true(reported >= 3);
    datadir_close(datadir);
}

static void overlong_or_binary_data_is_not_a_manifest(void **state)
{
    static char bytes[1 << 16];
    struct datadir *datadir;

    (void)state;
    open_and_close();
    memset(bytes, '\n', sizeof bytes);
    put_file("MANIFEST", bytes, sizeof bytes);
    assert_int_equal(try_open(&datadir), -EBADMSG);
    assert_non_null(strstr(error, "is not a manifest or is damaged"));
    put_file("MANIFEST", "format=1\0\n", 10);
    assert_int_equal(try_open(&datadir), -EBADMSG);
    put_file("MANIFEST", "", 0);
    assert_int_equal(try_open(&datadir), -EBADMSG);
}

static void a_backup_that_was_not_completed_is_refused(void **state)
{
    char path[256];
    struct datadir *datadir;

    (void)state;
    open_and_close();
    put_file(DATADIR_INCOMPLETE, "", 0);
    open_and_close(); /* with its manifest it is complete */
    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_open(&datadir), -EBADMSG);
    assert_non_null(strstr(error, "backup that was not completed"));
}

/* The holder has just taken the lock, and not yet written its number. */
static void a_holder_without_a_process_number_is_another_process(void **state)
{
    char path[256];
    struct datadir *datadir;
    int fd;

    (void)state;
    open_and_close();
    put_file("LOCK", "", 0);
    snprintf(path, sizeof path, "%s/LOCK", dir);
    fd = open(path, O_RDWR, 0);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(try_open(&datadir), -EBUSY);
    assert_non_null(strstr(error, "in use by another process;"));
    close(fd);
    open_and_close();
}

static void a_path_may_be_a_bare_name(void **state)
{
    char before[512];
    struct datadir *datadir;

    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch_root), 0);
    assert_int_equal(datadir_open("data//", 0, &datadir, &manifest, error, sizeof error), 0);
    datadir_close(datadir);
    assert_int_equal(access("data/MANIFEST", F_OK), 0);
    assert_int_equal(chdir(before), 0);
    open_and_close();
}

/* If the last sync failed, the new manifest still exists, and it is ours. */
static void an_unsynced_manifest_is_overwritten_by_the_next(void **state)
{
    (void)state;
    for (int n = 0; n < CALLS_MAX; n++) {
        struct datadir *datadir;

        open_and_close();
        assert_int_equal(try_open(&datadir), 0);
        failed = 0;
        calls_left = n;
        (void)datadir_write(datadir, &manifest);
        calls_left = -1;
        assert_int_equal(datadir_write(datadir, &manifest), 0);
        datadir_close(datadir);
        if (failed == 0)
            return;
    }
    fail();
}

static void a_manifest_that_is_not_a_file_does_not_block_the_start(void **state)
{
    char path[256];

    (void)state;
    open_and_close();
    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(try_open(&(struct datadir *){NULL}) < 0);
    assert_non_null(strstr(error, "cannot read"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(try_open(&(struct datadir *){NULL}), -ELOOP);
    assert_non_null(strstr(error, "is a symbolic link"));
}

#define ROW(TEST) cmocka_unit_test_setup_teardown(TEST, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(every_failed_call_is_reported_and_the_next_open_succeeds),
        ROW(the_manifest_is_replaced_atomically),
        ROW(overlong_or_binary_data_is_not_a_manifest),
        ROW(a_backup_that_was_not_completed_is_refused),
        ROW(a_holder_without_a_process_number_is_another_process),
        ROW(a_path_may_be_a_bare_name),
        ROW(an_unsynced_manifest_is_overwritten_by_the_next),
        ROW(a_manifest_that_is_not_a_file_does_not_block_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
