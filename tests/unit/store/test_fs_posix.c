/* The real disk, as rooms above see it: what went wrong is a number, and nothing is promised that
 * was not done. */
#include "store/fs.h"
#include "unit/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 65536 };

static const struct fs_ops *ops;
static char dir[64];

static char *path_of(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    ops = fs_posix.ops;
    snprintf(dir, sizeof dir, "/tmp/tarry-fs-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static void remove_each(void *ctx, const char *name)
{
    (void)ctx;
    if (ops->unlink(NULL, path_of(name)) < 0)
        rmdir(path_of(name));
}

static int remove_dir(void **state)
{
    (void)state;
    ops->list(NULL, dir, remove_each, NULL);
    return rmdir(dir);
}

static int open_new(const char *name)
{
    int fd = ops->open(NULL, path_of(name), O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    return fd;
}

CLAIM(written_bytes_are_read_at_their_offset)
{
    char got[8] = {0};
    int fd = open_new("file");

    assert_int_equal(ops->pwrite(NULL, fd, "abcdef", 6, 10), 6);
    assert_int_equal(ops->size(NULL, fd), 16);
    assert_int_equal(ops->fdatasync(NULL, fd), 0);
    assert_int_equal(ops->pread(NULL, fd, got, 3, 12), 3);
    assert_memory_equal(got, "cde", 3);
    assert_int_equal(ops->pread_cached(NULL, fd, got, 8, 10), 6); /* just written: in the cache */
    assert_memory_equal(got, "abcdef", 6);
    assert_int_equal(ops->pread(NULL, fd, got, 8, 100), 0);
    assert_int_equal(ops->truncate(NULL, fd, 12), 0);
    assert_int_equal(ops->size(NULL, fd), 12);
    assert_int_equal(ops->close(NULL, fd), 0);
}

CLAIM(every_failure_returns_its_errno)
{
    char byte;
    int fd = open_new("file");

    assert_int_equal(ops->close(NULL, fd), 0);
    assert_int_equal(ops->close(NULL, fd), -EBADF);
    assert_int_equal(ops->pread(NULL, fd, &byte, 1, 0), -EBADF);
    assert_int_equal(ops->pread_cached(NULL, fd, &byte, 1, 0), -EBADF);
    assert_int_equal(ops->pwrite(NULL, fd, &byte, 1, 0), -EBADF);
    assert_int_equal(ops->fdatasync(NULL, fd), -EBADF);
    assert_int_equal(ops->size(NULL, fd), -EBADF);
    assert_int_equal(ops->truncate(NULL, fd, 0), -EBADF);
    assert_int_equal(ops->punch(NULL, fd, 0, BLOCK), -EBADF);
    assert_int_equal(ops->disk_bytes(NULL, fd), -EBADF);
    assert_int_equal(ops->open(NULL, path_of("none"), O_RDONLY, 0), -ENOENT);
    assert_int_equal(ops->unlink(NULL, path_of("none")), -ENOENT);
    assert_int_equal(ops->rename(NULL, path_of("none"), path_of("other")), -ENOENT);
    assert_int_equal(ops->fsync_dir(NULL, path_of("none")), -ENOENT);
    assert_int_equal(ops->fsync_dir(NULL, path_of("file")), -ENOTDIR);
    assert_int_equal(ops->list(NULL, path_of("none"), remove_each, NULL), -ENOENT);
    assert_int_equal(ops->mkdir(NULL, path_of("none/below"), 0700), -ENOENT);
}

CLAIM(creating_an_existing_directory_succeeds_but_not_over_a_file)
{
    assert_int_equal(ops->mkdir(NULL, path_of("room"), 0700), 0);
    assert_int_equal(ops->mkdir(NULL, path_of("room"), 0700), 0);
    assert_int_equal(ops->fsync_dir(NULL, path_of("room")), 0);
    ops->close(NULL, open_new("file"));
    assert_int_equal(ops->mkdir(NULL, path_of("file"), 0700), -ENOTDIR);
}

static void count_name(void *ctx, const char *name)
{
    assert_true(strcmp(name, ".") && strcmp(name, ".."));
    *(unsigned *)ctx += !strcmp(name, "new");
}

CLAIM(a_renamed_file_has_its_new_name)
{
    unsigned count = 0;

    ops->close(NULL, open_new("old"));
    assert_int_equal(ops->rename(NULL, path_of("old"), path_of("new")), 0);
    assert_int_equal(ops->open(NULL, path_of("old"), O_RDONLY, 0), -ENOENT);
    assert_int_equal(ops->list(NULL, dir, count_name, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(ops->unlink(NULL, path_of("new")), 0);
}

/* Otherwise a backup that shares the file would get the hole as well. */
CLAIM(a_hole_is_made_in_a_file_of_one_name_only)
{
    static char bytes[4 * BLOCK], got[BLOCK];
    int fd = open_new("holed");
    int64_t before;

    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(ops->pwrite(NULL, fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(ops->fdatasync(NULL, fd), 0);
    before = ops->disk_bytes(NULL, fd);
    assert_int_equal(link(path_of("holed"), path_of("backup")), 0);
    assert_int_equal(ops->punch(NULL, fd, BLOCK, BLOCK), -EOPNOTSUPP);
    assert_int_equal(ops->disk_bytes(NULL, fd), before);
    assert_int_equal(ops->unlink(NULL, path_of("backup")), 0);
    int result = ops->punch(NULL, fd, BLOCK, BLOCK);
    if (result == -EOPNOTSUPP)
        skip(); /* this file system has no holes */
    assert_int_equal(result, 0);
    assert_int_equal(ops->size(NULL, fd), sizeof bytes);
    assert_true(ops->disk_bytes(NULL, fd) < before);
    assert_int_equal(ops->pread(NULL, fd, got, BLOCK, BLOCK), BLOCK);
    assert_true(got[0] == 0 && memcmp(got, got + 1, BLOCK - 1) == 0);
    assert_int_equal(ops->pread(NULL, fd, got, BLOCK, 0), BLOCK);
    assert_memory_equal(got, bytes, BLOCK);
    ops->close(NULL, fd);
}

CLAIMS_MAIN(make_dir, remove_dir)
