#include "access/token_file.h"

#include "access/token_list.h"
#include "base/error.h"
#include "base/file_mode.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static struct token_file_mark mark_of(const struct stat *info)
{
    return (struct token_file_mark){.device = info->st_dev,
                                    .inode = info->st_ino,
                                    .bytes = info->st_size,
                                    .mode = info->st_mode,
                                    .modified = info->st_mtim,
                                    .changed = info->st_ctim};
}

static bool times_equal(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool token_file_has_changed(const char *path, const struct token_file_mark *mark)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return true;
    struct token_file_mark now = mark_of(&info);
    return now.device != mark->device || now.inode != mark->inode || now.bytes != mark->bytes ||
           now.mode != mark->mode || !times_equal(now.modified, mark->modified) ||
           !times_equal(now.changed, mark->changed);
}

static int check_file(int fd, const char *path, const struct stat *info, bool is_public,
                      char *error)
{
    if (!S_ISREG(info->st_mode))
        return error_result(-EINVAL, error, ACCESS_ERROR_BYTES,
                            "'%.200s' is not a file, give the name of a file", path);
    if (info->st_uid != 0 && info->st_uid != geteuid())
        return error_result(-EPERM, error, ACCESS_ERROR_BYTES,
                            "'%.200s' belongs to another user, run: chown %u", path,
                            (unsigned)geteuid());
    mode_t forbidden = is_public ? S_IWOTH | S_IWGRP : S_IRWXO | S_IWGRP;
    if (file_mode_of_others(fd, info->st_mode) & forbidden)
        return error_result(-EPERM, error, ACCESS_ERROR_BYTES,
                            "others may %s '%.200s', run: chmod %s",
                            is_public ? "change the keys in" : "read or change the tokens in", path,
                            is_public ? "go-w" : "600");
    if (info->st_size > TOKEN_LIST_BYTES_MAX)
        return error_result(-EFBIG, error, ACCESS_ERROR_BYTES,
                            "'%.200s' is too large, at most %d bytes", path, TOKEN_LIST_BYTES_MAX);
    return 0;
}

static int read_all(int fd, size_t bytes, struct buffer *out)
{
    size_t before = out->len;
    while (out->len - before <= bytes) {
        char *into = buffer_reserve(out, bytes + 1 - (out->len - before));
        if (!into)
            return -ENOMEM;
        ssize_t got = read(fd, into, bytes + 1 - (out->len - before));
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            return 0;
        out->len += got > 0 ? (size_t)got : 0;
    }
    return -EAGAIN; /* it grew while it was read: read it again at the next check */
}

static int read_file(const char *path, bool is_public, struct buffer *out,
                     struct token_file_mark *mark, char *error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int result = fd < 0 || fstat(fd, &info) != 0 ? -errno : 0;
    if (result == 0 && (result = check_file(fd, path, &info, is_public, error)) != 0) {
        close(fd);
        return result;
    }
    if (result == 0)
        result = read_all(fd, (size_t)info.st_size, out);
    if (fd >= 0)
        close(fd);
    if (result != 0)
        return error_result(result, error, ACCESS_ERROR_BYTES, "cannot read the %s '%.200s', %s%s",
                            is_public ? "keys in" : "tokens in", path, strerror(-result),
                            result == -ENOENT && !is_public ? ", create it with 'tarry token new'"
                                                            : "");
    *mark = mark_of(&info);
    return 0;
}

int token_file_read(const char *path, struct buffer *out, struct token_file_mark *mark, char *error)
{
    return read_file(path, false, out, mark, error);
}

int token_file_read_public(const char *path, struct buffer *out, struct token_file_mark *mark,
                           char *error)
{
    return read_file(path, true, out, mark, error);
}

/* ---- editing ---- */

enum { NAME_BYTES = PATH_MAX + 16 };

static int lock(int fd)
{
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* Opens and locks the file of tokens. An edit replaces the file, so the new one is then locked
 * instead. The directory is not locked, because other users can open it too and could hold the lock
 * forever. Returns a descriptor, or negative errno, with `error` unless it is -ENOENT. */
static int lock_file(const char *path, char *error)
{
    for (;;) {
        struct stat locked, there;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        int result = fd < 0 || fstat(fd, &locked) != 0 ? -errno : 0;
        if (result != 0 && result != -ENOENT)
            error_write(error, ACCESS_ERROR_BYTES, "cannot read '%.200s', %s", path,
                        strerror(-result));
        if (result == 0)
            result = check_file(fd, path, &locked, false, error);
        if (result == 0 && (result = lock(fd)) != 0)
            error_write(error, ACCESS_ERROR_BYTES, "cannot lock '%.200s', %s", path,
                        strerror(-result));
        if (result == 0 && stat(path, &there) == 0 && there.st_dev == locked.st_dev &&
            there.st_ino == locked.st_ino)
            return fd;
        if (fd >= 0)
            close(fd);
        if (result != 0)
            return result;
    }
}

static int sync_directory_of(const char *path)
{
    char directory[NAME_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd < 0 || fsync(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

static int write_all(int fd, struct slice text)
{
    for (size_t done = 0; done < text.len;) {
        ssize_t wrote = write(fd, text.at + done, text.len - done);
        if (wrote < 0 && errno != EINTR)
            return -errno;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return fsync(fd) == 0 ? 0 : -errno;
}

/* Replaces the file atomically; creates it only if it does not exist. */
static int put_in_place(const char *other, const char *path, bool was_there)
{
    if (was_there)
        return rename(other, path) == 0 ? 0 : -errno;
    int result = link(other, path) == 0 ? 0 : -errno;
    unlink(other);
    return result;
}

/* Writes a temporary file with the mode and owner of the old file, then replaces the old one.
 * Returns -EEXIST if another process created the first file meanwhile. */
static int replace_file(const char *path, struct slice text, const struct stat *old)
{
    char other[NAME_BYTES];
    snprintf(other, sizeof other, "%s.XXXXXX", path);
    int fd = mkostemp(other, O_CLOEXEC), result = 0;
    if (fd < 0)
        return -errno;
    if (old && (old->st_uid != geteuid() || old->st_gid != getegid()) &&
        fchown(fd, old->st_uid, old->st_gid) != 0)
        result = -errno;
    if (result == 0 && fchmod(fd, old ? old->st_mode & 0777 : S_IRUSR | S_IWUSR) != 0)
        result = -errno;
    if (result == 0)
        result = write_all(fd, text);
    close(fd);
    if (result == 0)
        result = put_in_place(other, path, old != NULL);
    if (result != 0)
        unlink(other);
    return result == 0 ? sync_directory_of(path) : result;
}

/* Edits the file. `fd` is the locked file, or negative if it does not exist. */
static int edit_locked(const char *path, int fd, token_file_editor *edit, void *ctx, char *error)
{
    struct token_file_mark mark;
    struct stat info;
    struct buffer before, after;
    bool is_there = fd >= 0 && fstat(fd, &info) == 0;
    buffer_init(&before, TOKEN_LIST_BYTES_MAX + 1);
    buffer_init(&after, TOKEN_LIST_BYTES_MAX);
    int result = is_there ? token_file_read(path, &before, &mark, error) : 0;
    if (result == 0)
        result = edit(ctx, buffer_slice(&before), &after);
    if (result == 0 && after.failed)
        result = error_result(-EFBIG, error, ACCESS_ERROR_BYTES,
                              "too many tokens for '%.200s', at most %d bytes", path,
                              TOKEN_LIST_BYTES_MAX);
    else if (result == 0 &&
             (result = replace_file(path, buffer_slice(&after), is_there ? &info : NULL)) != 0)
        error_write(error, ACCESS_ERROR_BYTES, "cannot write the tokens to '%.200s', %s", path,
                    strerror(-result));
    buffer_fini(&before);
    buffer_fini(&after);
    return result;
}

int token_file_edit(const char *path, token_file_editor *edit, void *ctx, char *error)
{
    char real[PATH_MAX];
    if (realpath(path, real)) /* replaces the target of a symbolic link, not the link */
        path = real;
    else if (strlen(path) >= PATH_MAX)
        return error_result(-ENAMETOOLONG, error, ACCESS_ERROR_BYTES,
                            "the name of the file of tokens is too long");
    for (;;) {
        int fd = lock_file(path, error);
        if (fd < 0 && fd != -ENOENT)
            return fd;
        int result = edit_locked(path, fd, edit, ctx, error);
        if (fd >= 0)
            close(fd); /* also releases the lock */
        if (result != -EEXIST)
            return result;
    }
}
