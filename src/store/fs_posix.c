#include "store/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int posix_open(void *ctx, const char *path, int flags, int mode)
{
    int fd;

    (void)ctx;
    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

static int posix_close(void *ctx, int fd)
{
    (void)ctx;
    return close(fd) < 0 ? -errno : 0;
}

static ssize_t posix_pread(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    ssize_t got;

    (void)ctx;
    do
        got = pread(fd, into, len, offset);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t posix_pread_cached(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    struct iovec part = {.iov_base = into, .iov_len = len};
    ssize_t got;

    do
        got = preadv2(fd, &part, 1, offset, RWF_NOWAIT);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return got;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
        return posix_pread(ctx, fd, into, len, offset);
    return -errno;
}

static ssize_t posix_pwrite(void *ctx, int fd, const void *from, size_t len, int64_t offset)
{
    ssize_t put;

    (void)ctx;
    do
        put = pwrite(fd, from, len, offset);
    while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

/* Not tried again on any error, EINTR included: after a failure nothing is known about the pages.
 */
static int posix_fdatasync(void *ctx, int fd)
{
    (void)ctx;
    return fdatasync(fd) < 0 ? -errno : 0;
}

static int64_t posix_size(void *ctx, int fd)
{
    struct stat about;

    (void)ctx;
    return fstat(fd, &about) < 0 ? -errno : about.st_size;
}

static int posix_truncate(void *ctx, int fd, int64_t size)
{
    (void)ctx;
    return ftruncate(fd, size) < 0 ? -errno : 0;
}

static int posix_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    return rename(from, to) < 0 ? -errno : 0;
}

static int posix_unlink(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path) < 0 ? -errno : 0;
}

static int posix_mkdir(void *ctx, const char *path, int mode)
{
    struct stat about;

    (void)ctx;
    if (mkdir(path, (mode_t)mode) == 0)
        return 0;
    if (errno == EEXIST && stat(path, &about) == 0)
        return S_ISDIR(about.st_mode) ? 0 : -ENOTDIR;
    return -errno;
}

static int posix_fsync_dir(void *ctx, const char *path)
{
    int fd = posix_open(ctx, path, O_RDONLY | O_DIRECTORY, 0);
    int result;

    if (fd < 0)
        return fd;
    result = fsync(fd) < 0 ? -errno : 0;
    close(fd);
    return result;
}

static int posix_list(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                      void *each_ctx)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int result;

    (void)ctx;
    if (!dir)
        return -errno;
    for (errno = 0; (entry = readdir(dir)); errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            each(each_ctx, entry->d_name);
    result = -errno;
    closedir(dir);
    return result;
}

static int posix_punch(void *ctx, int fd, int64_t offset, int64_t bytes)
{
    struct stat about;

    (void)ctx;
    if (fstat(fd, &about) < 0)
        return -errno;
    if (about.st_nlink > 1)
        return -EOPNOTSUPP; /* a backup has the file, too */
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) < 0 ? -errno
                                                                                        : 0;
}

static void posix_forget(void *ctx, int fd, int64_t offset, int64_t bytes)
{
    (void)ctx;
    (void)posix_fadvise(fd, offset, bytes, POSIX_FADV_DONTNEED);
}

static int64_t posix_disk_bytes(void *ctx, int fd)
{
    struct stat about;

    (void)ctx;
    return fstat(fd, &about) < 0 ? -errno : (int64_t)about.st_blocks * 512;
}

static const struct fs_ops posix_ops = {
    .open = posix_open,
    .close = posix_close,
    .pread = posix_pread,
    .pread_cached = posix_pread_cached,
    .pwrite = posix_pwrite,
    .fdatasync = posix_fdatasync,
    .size = posix_size,
    .truncate = posix_truncate,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .mkdir = posix_mkdir,
    .fsync_dir = posix_fsync_dir,
    .punch = posix_punch,
    .forget = posix_forget,
    .disk_bytes = posix_disk_bytes,
    .list = posix_list,
};

const struct fs fs_posix = {.ops = &posix_ops};
