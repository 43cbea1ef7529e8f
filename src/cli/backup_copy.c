#include "cli/backup_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, SYNC_BYTES = 64 << 20 };

static int fail(struct backup_copying *copying, int result, const char *what, const char *path)
{
    snprintf(copying->error, sizeof(copying->error), "cannot %s '%.700s': %s", what, path,
             strerror(-result));
    return result;
}

static int open_source(struct backup_copying *copying, const char *from, uint64_t *bytes)
{
    struct stat about;
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0)
        return fail(copying, -errno, "open", from);
    if (fstat(fd, &about) < 0) {
        int result = fail(copying, -errno, "look at", from);
        close(fd);
        return result;
    }
    *bytes = (uint64_t)about.st_size;
    return fd;
}

/* ---- into a file that is open ---- */

static int put(struct backup_copying *copying, int fd, const char *bytes, size_t len, uint64_t at,
               const char *into)
{
    while (len) {
        ssize_t put_now = pwrite(fd, bytes, len, (off_t)at);
        if (put_now < 0 && errno == EINTR)
            continue;
        if (put_now < 0)
            return fail(copying, -errno, "write", into);
        bytes += put_now;
        at += (uint64_t)put_now;
        len -= (size_t)put_now;
    }
    return 0;
}

/* Every so often, so that no sync at the end takes longer than the server waits for a word. */
static int step(struct backup_copying *copying, int fd, uint64_t at, size_t len, const char *into)
{
    if ((at + len) / SYNC_BYTES != at / SYNC_BYTES && fdatasync(fd) < 0)
        return fail(copying, -errno, "sync", into);
    return copying->pulse(copying->ctx, len) ? 0 : -ECANCELED;
}

static int pour(struct backup_copying *copying, int source, int fd, uint64_t bytes,
                const char *from, const char *into)
{
    static char chunk[CHUNK_BYTES];
    int result = 0;
    for (uint64_t at = 0; result == 0 && at < bytes;) {
        size_t want = bytes - at < CHUNK_BYTES ? (size_t)(bytes - at) : CHUNK_BYTES;
        ssize_t got = pread(source, chunk, want, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(copying, got < 0 ? -errno : -EIO, "read", from);
        result = put(copying, fd, chunk, (size_t)got, at, into);
        if (result == 0)
            result = step(copying, fd, at, (size_t)got, into);
        at += (uint64_t)got;
        copying->copied += (uint64_t)got;
    }
    return result;
}

/* Real zeros, not a hole: the server that opens it relies on the room being there. */
static int fill(struct backup_copying *copying, int fd, uint64_t at, uint64_t end, const char *into)
{
    static const char zeros[CHUNK_BYTES];
    int result = 0;
    while (result == 0 && at < end) {
        size_t len = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
        result = put(copying, fd, zeros, len, at, into);
        if (result == 0)
            result = step(copying, fd, at, len, into);
        at += len;
    }
    return result;
}

static int make(struct backup_copying *copying, const char *into)
{
    int fd = open(into, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? fail(copying, -errno, "make", into) : fd;
}

/* Ends a file: synced, closed. */
static int settle(struct backup_copying *copying, int fd, int result, const char *into)
{
    if (result == 0 && fsync(fd) < 0)
        result = fail(copying, -errno, "sync", into);
    if (close(fd) < 0 && result == 0)
        result = fail(copying, -errno, "close", into);
    return result;
}

/* ---- whole files ---- */

int backup_copy(struct backup_copying *copying, const char *from, const char *into, uint64_t bytes,
                uint64_t file_bytes)
{
    uint64_t there = 0;
    int source = open_source(copying, from, &there), fd, result;
    if (source < 0)
        return source;
    if (bytes == UINT64_MAX)
        bytes = file_bytes = there;
    fd = make(copying, into);
    result = fd < 0 ? fd : pour(copying, source, fd, bytes, from, into);
    if (result == 0)
        result = fill(copying, fd, bytes, file_bytes, into);
    if (fd >= 0)
        result = settle(copying, fd, result, into);
    close(source);
    return result;
}

static bool reflink(int source, const char *into)
{
    int fd = open(into, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && ioctl(fd, FICLONE, source) == 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !ok)
        unlink(into);
    return ok;
}

int backup_share(struct backup_copying *copying, const char *from, const char *into)
{
    uint64_t bytes = 0;
    int source = open_source(copying, from, &bytes);
    if (source < 0)
        return source;
    bool is_shared =
        reflink(source, into) || (copying->links && linkat(AT_FDCWD, from, AT_FDCWD, into, 0) == 0);
    close(source);
    if (!is_shared)
        return backup_copy(copying, from, into, UINT64_MAX, 0);
    copying->shared += bytes;
    return copying->pulse(copying->ctx, bytes) ? 0 : -ECANCELED;
}

int backup_write(struct backup_copying *copying, const char *into, struct slice text)
{
    int fd = make(copying, into);
    if (fd < 0)
        return fd;
    return settle(copying, fd, put(copying, fd, text.at, text.len, 0, into), into);
}

int backup_sync_dir(struct backup_copying *copying, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
    if (fd < 0)
        return fail(copying, -errno, "open", path);
    if (fsync(fd) < 0)
        result = fail(copying, -errno, "sync", path);
    close(fd);
    return result;
}
