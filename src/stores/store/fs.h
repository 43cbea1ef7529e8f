/*
 * fs: the few file operations the store is made of, as a table, so that tests can put a simulated
 * disk under it.
 *
 * All return 0 (or a count, or a descriptor) on success and a negative errno on failure. May be
 * called from a helper thread; for one descriptor only pread and pread_cached from several at once.
 * `ctx` is the implementation's own.
 */
#ifndef TARRY_STORE_FS_H
#define TARRY_STORE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* By which a file is known that nobody else has written to. */
struct fs_stamp {
    int64_t bytes; /* -1: nothing is known; equal to any */
    int64_t modified_ns;
};

/* Of a file system, for an ordinary user. */
struct fs_room {
    uint64_t free_bytes, all_bytes;
};

struct fs {
    const struct fs_ops *ops;
    void *ctx;
};

struct fs_ops {
    int (*open)(void *ctx, const char *path, int flags, int mode); /* flags of open(2) */
    int (*close)(void *ctx, int fd);
    ssize_t (*pread)(void *ctx, int fd, void *into, size_t len, int64_t offset);
    /* As pread, but -EAGAIN instead of waiting for the disk. May be the same as pread where that is
     * not known. */
    ssize_t (*pread_cached)(void *ctx, int fd, void *into, size_t len, int64_t offset);
    ssize_t (*pwrite)(void *ctx, int fd, const void *from, size_t len, int64_t offset);
    int (*fdatasync)(void *ctx, int fd);
    int64_t (*size)(void *ctx, int fd);
    int (*truncate)(void *ctx, int fd, int64_t size);
    int (*rename)(void *ctx, const char *from, const char *to);
    int (*unlink)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path, int mode); /* an existing directory is fine */
    int (*fsync_dir)(void *ctx, const char *path);
    /* The bytes read as zeros and take no disk space, where the file system can; -EOPNOTSUPP where
     * not. A file with a second name is left alone as one that cannot: it is a backup's, too. */
    int (*punch)(void *ctx, int fd, int64_t offset, int64_t bytes);
    /* A hint: nobody reads this soon; what of it is synced need not stay in the page cache. NULL:
     * there is none. */
    void (*forget)(void *ctx, int fd, int64_t offset, int64_t bytes);
    int64_t (*disk_bytes)(void *ctx, int fd); /* what the file takes on the disk, holes left out */
    /* Calls `each` with every name in the directory but "." and "..". */
    int (*list)(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                void *each_ctx);
    /* Whether the path, from its very beginning, leads to what `fd` is open on, or with fd -1 to
     * the directory of that path which is held. NULL: it always does. */
    bool (*leads)(void *ctx, const char *path, int fd);
    /* The file's stamp after a write of one's own; nothing where the file system's times are not to
     * be relied upon. And whether it still has it. NULL, both: nobody else is there. */
    struct fs_stamp (*stamp)(void *ctx, int fd);
    bool (*has_stamp)(void *ctx, int fd, const struct fs_stamp *stamp);
    /* The room on the file system that the file is on. NULL: that is not known. */
    int (*room)(void *ctx, int fd, struct fs_room *out);
};

/* The real file system. Its operations take as `ctx` the directory below which all paths lie
 * (fs_dir.h), which then reaches them from descriptors it holds; or NULL, as here: each by its
 * path.
 */
extern const struct fs fs_posix;

/* fs->ops->leads, where there is one. */
bool fs_leads(const struct fs *fs, const char *path, int fd);
/* fs->ops->stamp and has_stamp, where there are such. */
struct fs_stamp fs_stamp(const struct fs *fs, int fd);
bool fs_has_stamp(const struct fs *fs, int fd, const struct fs_stamp *stamp);

/*
 * What a single operation leaves short these go on with. `may_block` false reads from the page
 * cache alone: -EAGAIN where that has not all of it.
 */

/* How many bytes there were: fewer than `len` where the file ends before. Or a negative errno. */
ssize_t fs_pread_some(const struct fs *fs, int fd, bool may_block, void *into, size_t len,
                      int64_t offset);
/* All of it: 0, -EBADMSG where the file ends before, or another negative errno. */
int fs_pread_whole(const struct fs *fs, int fd, bool may_block, void *into, size_t len,
                   int64_t offset);
int fs_pwrite_whole(const struct fs *fs, int fd, const void *from, size_t len, int64_t offset);

/* A file that is whole and synced gets the name that counts, durably: renamed, and its directory
 * synced. *is_named (may be NULL) says after a failure how far it came: true, and the sync failed,
 * so whether the name outlives a crash is not known. */
int fs_give_name(const struct fs *fs, const char *dir, const char *from, const char *to,
                 bool *is_named);

#endif
