/* Disk space reserved for the one checkpoint that frees space when the disk is full. */
#include "store/depot_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char NAME[] = "RESERVE";
static const char NEW_NAME[] = "RESERVE.new";

/* Writes zeros that are really allocated, since a file system may not account for holes. */
static int write_zeros(struct depot *depot, int fd, uint64_t bytes)
{
    static char zeros[64 << 10]; /* not constant: the program file would contain them */
    const struct fs *fs = depot->options.fs;

    for (uint64_t at = 0; at < bytes;) {
        size_t want = bytes - at < sizeof zeros ? (size_t)(bytes - at) : sizeof zeros;
        int result = fs_pwrite_whole(fs, fd, zeros, want, (int64_t)at);

        if (result < 0)
            return result;
        at += want;
        if (depot->options.pace && depot->options.pace(depot->options.ctx, want) < 0)
            return -ECANCELED;
    }
    return fs->ops->fdatasync(fs->ctx, fd);
}

static bool is_there(struct depot *depot, uint64_t bytes)
{
    const struct fs *fs = depot->options.fs;
    char path[PATH_MAX];
    int fd;
    bool there;

    depot_path(depot, NAME, path);
    fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
    if (fd < 0)
        return false;
    there = fs->ops->size(fs->ctx, fd) >= (int64_t)bytes;
    fs->ops->close(fs->ctx, fd);
    return there;
}

int depot_make_reserve(struct depot *depot, uint64_t bytes)
{
    const struct fs *fs = depot->options.fs;
    char from[PATH_MAX], to[PATH_MAX];
    int fd, result;

    if (depot->held_back || is_there(depot, bytes))
        return 0;
    depot_path(depot, NEW_NAME, from);
    depot_path(depot, NAME, to);
    fd = fs->ops->open(fs->ctx, from, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return fd;
    result = write_zeros(depot, fd, bytes);
    fs->ops->close(fs->ctx, fd);
    if (result == 0)
        result = fs->ops->rename(fs->ctx, from, to);
    if (result < 0)
        (void)fs->ops->unlink(fs->ctx, from);
    return result;
}

void depot_spend_reserve(struct depot *depot)
{
    const struct fs *fs = depot->options.fs;
    char path[PATH_MAX];

    depot_path(depot, NAME, path);
    (void)fs->ops->unlink(fs->ctx, path);
    depot_path(depot, NEW_NAME, path);
    (void)fs->ops->unlink(fs->ctx, path);
}
