#include "store/fs.h"

#include <errno.h>

ssize_t fs_pread_some(const struct fs *fs, int fd, bool may_block, void *into, size_t len,
                      int64_t offset)
{
    ssize_t (*read)(void *, int, void *, size_t, int64_t) =
        may_block ? fs->ops->pread : fs->ops->pread_cached;
    size_t done = 0;

    while (done < len) {
        ssize_t got = read(fs->ctx, fd, (char *)into + done, len - done, offset + (int64_t)done);

        if (got < 0)
            return got;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int fs_pread_whole(const struct fs *fs, int fd, bool may_block, void *into, size_t len,
                   int64_t offset)
{
    ssize_t got = fs_pread_some(fs, fd, may_block, into, len, offset);

    if (got < 0)
        return (int)got;
    return (size_t)got == len ? 0 : -EBADMSG;
}

int fs_pwrite_whole(const struct fs *fs, int fd, const void *from, size_t len, int64_t offset)
{
    size_t done = 0;

    while (done < len) {
        ssize_t put = fs->ops->pwrite(fs->ctx, fd, (const char *)from + done, len - done,
                                      offset + (int64_t)done);

        if (put <= 0)
            return put < 0 ? (int)put : -EIO;
        done += (size_t)put;
    }
    return 0;
}

int fs_give_name(const struct fs *fs, const char *dir, const char *from, const char *to,
                 bool *is_named)
{
    int result = fs->ops->rename(fs->ctx, from, to);

    if (is_named)
        *is_named = result == 0;
    return result < 0 ? result : fs->ops->fsync_dir(fs->ctx, dir);
}

bool fs_leads(const struct fs *fs, const char *path, int fd)
{
    return !fs->ops->leads || fs->ops->leads(fs->ctx, path, fd);
}

struct fs_stamp fs_stamp(const struct fs *fs, int fd)
{
    return fs->ops->stamp && fs->ops->has_steady_times(fs->ctx, fd)
               ? fs->ops->stamp(fs->ctx, fd)
               : (struct fs_stamp){.bytes = -1};
}

void fs_stamp_renew(const struct fs *fs, int fd, struct fs_stamp *stamp)
{
    if (stamp->bytes >= 0)
        *stamp = fs->ops->stamp(fs->ctx, fd);
}

bool fs_has_stamp(const struct fs *fs, int fd, const struct fs_stamp *stamp)
{
    return stamp->bytes < 0 || !fs->ops->has_stamp || fs->ops->has_stamp(fs->ctx, fd, stamp);
}
