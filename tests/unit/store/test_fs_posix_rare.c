/* The real disk where it is rarely met: interrupted calls, what cannot be asked of every file,
 * names that lead nowhere. */
#include "store/fs.h"
#include "unit/claim.h"
#include "unit/stand_before.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- calls that a signal interrupts, or that the system does not know ---- */

static int interruptions; /* of the calls that follow; then they are carried out */
static int cached_errno;  /* of preadv2; 0: it is carried out */

static bool is_interrupted(void)
{
    if (interruptions == 0)
        return false;
    interruptions--;
    errno = EINTR;
    return true;
}

STANDS_BEFORE(open, int, -1, is_interrupted(), (const char *path, int flags, mode_t mode),
              (path, flags, mode))
STANDS_BEFORE(pread, ssize_t, -1, is_interrupted(), (int fd, void *to, size_t len, off_t at),
              (fd, to, len, at))
STANDS_BEFORE(pwrite, ssize_t, -1, is_interrupted(),
              (int fd, const void *from, size_t len, off_t at), (fd, from, len, at))

ssize_t rare_preadv2(int fd, const struct iovec *sections, int count, off_t at,
                     int flags) __asm__("preadv2");
ssize_t rare_preadv2(int fd, const struct iovec *sections, int count, off_t at, int flags)
{
    if (is_interrupted())
        return -1;
    if (cached_errno) {
        errno = cached_errno;
        return -1;
    }
    (void)flags; /* whatever is in the cache: it was just written */
    return preadv(fd, sections, count, at);
}

/* ---- claims ---- */

static const struct fs_ops *ops;
static char dir[64], path[128];

static int make_dir(void **state)
{
    (void)state;
    ops = fs_posix.ops;
    snprintf(dir, sizeof dir, "/tmp/tarry-fs-rare-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static int open_file(void)
{
    int fd = ops->open(NULL, path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(ops->pwrite(NULL, fd, "abcdef", 6, 0), 6);
    return fd;
}

CLAIM(interrupted_calls_continue)
{
    char got[6];
    int fd;

    interruptions = 2;
    fd = open_file();
    interruptions = 2;
    assert_int_equal(ops->pwrite(NULL, fd, "ABC", 3, 0), 3);
    interruptions = 2;
    assert_int_equal(ops->pread(NULL, fd, got, 6, 0), 6);
    assert_memory_equal(got, "ABCdef", 6);
    interruptions = 2;
    assert_int_equal(ops->pread_cached(NULL, fd, got, 6, 0), 6);
    assert_int_equal(interruptions, 0);
    ops->close(NULL, fd);
}

/* If that is unknown, a read may have to wait for the disk. */
CLAIM(a_cache_read_falls_back_to_an_ordinary_read)
{
    static const int unknown[] = {EOPNOTSUPP, ENOSYS, EINVAL};
    int fd = open_file();
    char got[6];

    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        cached_errno = unknown[i];
        memset(got, 0, sizeof got);
        assert_int_equal(ops->pread_cached(NULL, fd, got, 6, 0), 6);
        assert_memory_equal(got, "abcdef", 6);
    }
    cached_errno = EAGAIN; /* it is missing: no call waits for it */
    assert_int_equal(ops->pread_cached(NULL, fd, got, 6, 0), -EAGAIN);
    cached_errno = EIO;
    assert_int_equal(ops->pread_cached(NULL, fd, got, 6, 0), -EIO);
    cached_errno = 0;
    ops->close(NULL, fd);
}

CLAIM(a_dangling_name_is_not_a_directory)
{
    unlink(path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(ops->mkdir(NULL, path, 0700), -ENOENT);
    assert_int_equal(ops->fsync_dir(NULL, path), -ENOENT);
    unlink(path);
}

CLAIM(data_dropped_from_the_cache_is_still_readable)
{
    int fd = open_file();
    char got[6];

    assert_int_equal(ops->fdatasync(NULL, fd), 0);
    ops->forget(NULL, fd, 0, 6);
    assert_int_equal(ops->pread(NULL, fd, got, 6, 0), 6);
    assert_memory_equal(got, "abcdef", 6);
    ops->close(NULL, fd);
}

CLAIM(a_hole_takes_a_file_that_may_be_written)
{
    int fd;

    ops->close(NULL, open_file());
    fd = ops->open(NULL, path, O_RDONLY, 0);
    assert_true(fd >= 0);
    assert_int_equal(ops->punch(NULL, fd, 0, 4096), -EBADF);
    ops->close(NULL, fd);
}

static ssize_t write_nothing(void *ctx, int fd, const void *from, size_t len, int64_t offset)
{
    (void)ctx;
    (void)fd;
    (void)from;
    (void)len;
    (void)offset;
    return 0;
}

/* Else the writer would go on for ever. */
CLAIM(a_write_that_gets_nowhere_is_an_error)
{
    struct fs_ops still = *ops;
    const struct fs fs = {.ops = &still};

    still.pwrite = write_nothing;
    assert_int_equal(fs_pwrite_whole(&fs, 0, "a", 1, 0), -EIO);
}

CLAIMS_MAIN(make_dir, remove_dir)
