/* The POSIX implementation of fs.h. Files are opened relative to a directory that is held open
 * (fs_dir.h). */
#include "store/fs.h"
#include "store/fs_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Arguments for looking up a name: with a held directory (`ctx`) the descriptor of its parent and
 * its last part, else the whole path. */
struct place {
    int at;
    const char *name;
};

static int find_place(void *ctx, const char *path, struct place *out)
{
    int fd;

    *out = (struct place){.at = AT_FDCWD, .name = path};
    if (!ctx)
        return 0;
    fd = fs_dir_hold_parent(ctx, path, &out->name);
    out->at = fd;
    return fd < 0 ? fd : 0;
}

/* Notes that the name was made, removed or given to another file. */
static void note_change(void *ctx, const struct place *place)
{
    if (ctx)
        fs_dir_note_change(ctx, place->at);
}

static int open_place(const struct place *place, int flags, int mode)
{
    int fd;

    do
        fd = openat(place->at, place->name, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

static int posix_open(void *ctx, const char *path, int flags, int mode)
{
    struct place place;
    int result = find_place(ctx, path, &place);
    int fd = result < 0 ? result : open_place(&place, flags, mode);

    if (fd < 0 || !ctx || !(flags & O_CREAT))
        return fd;
    note_change(ctx, &place);
    result = fs_dir_give(ctx, fd);
    if (result < 0)
        close(fd);
    return result < 0 ? result : fd;
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
    struct iovec section = {.iov_base = into, .iov_len = len};
    ssize_t got;

    do
        got = preadv2(fd, &section, 1, offset, RWF_NOWAIT);
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

/* Syncs the data. Never retried after an error, not even EINTR: after a failure the state of the
 * pages is unknown. */
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
    struct place old, new;
    int result = find_place(ctx, from, &old);

    if (result == 0)
        result = find_place(ctx, to, &new);
    if (result < 0)
        return result;
    if (renameat(old.at, old.name, new.at, new.name) < 0)
        result = -errno;
    note_change(ctx, &old);
    note_change(ctx, &new);
    return result;
}

static int posix_unlink(void *ctx, const char *path)
{
    struct place place;
    int result = find_place(ctx, path, &place);

    if (result < 0)
        return result;
    if (unlinkat(place.at, place.name, 0) < 0)
        result = -errno;
    note_change(ctx, &place);
    return result;
}

static int posix_mkdir(void *ctx, const char *path, int mode)
{
    struct place place;
    struct stat about;
    int result = find_place(ctx, path, &place);

    if (result < 0)
        return result;
    if (mkdirat(place.at, place.name, (mode_t)mode) == 0) {
        note_change(ctx, &place);
        if (ctx)
            fs_dir_note_made(ctx, path);
        return ctx ? fs_dir_give_name(ctx, place.at, place.name) : 0;
    }
    if (errno == EEXIST && fstatat(place.at, place.name, &about, 0) == 0)
        return S_ISDIR(about.st_mode) ? 0 : -ENOTDIR;
    return -errno;
}

/* Opens a separate descriptor, since a held one may be in use elsewhere. */
static int open_dir(void *ctx, const char *path)
{
    const int held = ctx ? fs_dir_hold(ctx, path) : AT_FDCWD;
    const struct place place = {.at = held, .name = ctx ? "." : path};

    return ctx && held < 0 ? held : open_place(&place, O_RDONLY | O_DIRECTORY, 0);
}

static int posix_fsync_dir(void *ctx, const char *path)
{
    int fd, result;

    if (ctx)
        return fs_dir_sync(ctx, path);
    fd = open_dir(ctx, path);
    if (fd < 0)
        return fd;
    result = fsync(fd) < 0 ? -errno : 0;
    close(fd);
    return result;
}

static int posix_list(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                      void *each_ctx)
{
    int fd = open_dir(ctx, path), result;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir) {
        result = fd < 0 ? fd : -errno;
        if (fd >= 0)
            close(fd);
        return result;
    }
    for (errno = 0; (entry = readdir(dir)); errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            each(each_ctx, entry->d_name);
    result = -errno;
    closedir(dir);
    return result;
}

static bool posix_leads(void *ctx, const char *path, int fd)
{
    if (fd < 0 && !ctx)
        return true; /* no directory is held */
    if (fd < 0)
        fd = fs_dir_hold(ctx, path);
    return fd >= 0 && fs_dir_path_leads_to(path, fd);
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

/* Returns whether modification times are stable, which is true only for local file systems: over a
 * network a file's time may change between two queries. */
static bool posix_has_steady_times(void *ctx, int fd)
{
    struct statfs about;

    (void)ctx;
    if (fstatfs(fd, &about) < 0)
        return false;
    switch ((unsigned long)about.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

static int64_t modified_ns(const struct stat *about)
{
    return about->st_mtim.tv_sec * INT64_C(1000000000) + about->st_mtim.tv_nsec;
}

static struct fs_stamp posix_stamp(void *ctx, int fd)
{
    struct stat about;

    (void)ctx;
    if (fstat(fd, &about) < 0)
        return (struct fs_stamp){.bytes = -1};
    return (struct fs_stamp){.bytes = about.st_size, .modified_ns = modified_ns(&about)};
}

static bool posix_has_stamp(void *ctx, int fd, const struct fs_stamp *stamp)
{
    struct stat about;

    (void)ctx;
    return fstat(fd, &about) < 0 ||
           (about.st_size == stamp->bytes && modified_ns(&about) == stamp->modified_ns);
}

static int posix_room(void *ctx, int fd, struct fs_room *out)
{
    struct statvfs about;

    (void)ctx;
    if (fstatvfs(fd, &about) < 0)
        return -errno;
    *out = (struct fs_room){.free_bytes = (uint64_t)about.f_bavail * about.f_frsize,
                            .all_bytes = (uint64_t)about.f_blocks * about.f_frsize};
    return 0;
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
    .leads = posix_leads,
    .has_steady_times = posix_has_steady_times,
    .stamp = posix_stamp,
    .has_stamp = posix_has_stamp,
    .room = posix_room,
};

const struct fs fs_posix = {.ops = &posix_ops};
