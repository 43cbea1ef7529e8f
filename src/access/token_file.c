#include "access/token_file.h"

#include "access/token_list.h"
#include "base/error.h"
#include "base/file_mode.h"

#include <errno.h>
#include <fcntl.h>
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

static int check_file(int fd, const char *path, const struct stat *info, char *error)
{
    if (!S_ISREG(info->st_mode))
        return error_result(-EINVAL, error, ACCESS_ERROR_BYTES,
                            "'%.200s' is no file, name one with --tokens", path);
    if (info->st_uid != 0 && info->st_uid != geteuid())
        return error_result(-EPERM, error, ACCESS_ERROR_BYTES,
                            "the tokens in '%.200s' belong to another user, run: chown %u", path,
                            (unsigned)geteuid());
    if (file_mode_of_others(fd, info->st_mode) & (S_IRWXO | S_IWGRP))
        return error_result(-EPERM, error, ACCESS_ERROR_BYTES,
                            "others may read or change the tokens in '%.200s', run: chmod 600",
                            path);
    if (info->st_size > TOKEN_LIST_BYTES_MAX)
        return error_result(-EFBIG, error, ACCESS_ERROR_BYTES,
                            "'%.200s' is too large for tokens, at most %d bytes", path,
                            TOKEN_LIST_BYTES_MAX);
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
    return -EAGAIN; /* it grows while it is read: it is read again at the next look */
}

int token_file_read(const char *path, struct buffer *out, struct token_file_mark *mark, char *error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int result = fd < 0 || fstat(fd, &info) != 0 ? -errno : 0;
    if (result == 0 && (result = check_file(fd, path, &info, error)) != 0) {
        close(fd);
        return result;
    }
    if (result == 0)
        result = read_all(fd, (size_t)info.st_size, out);
    if (fd >= 0)
        close(fd);
    if (result != 0)
        return error_result(result, error, ACCESS_ERROR_BYTES,
                            "cannot read the tokens in '%.200s', %s", path, strerror(-result));
    *mark = mark_of(&info);
    return 0;
}
