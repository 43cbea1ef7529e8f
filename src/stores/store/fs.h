/*
 * fs: the file operations that the store uses, as a table of functions, so that tests can
 * substitute a simulated disk.
 *
 * All operations return 0 (or a count, or a descriptor) on success and a negative errno on failure.
 * They may be called from a helper thread. On one descriptor only pread and pread_cached may run
 * concurrently. `ctx` belongs to the implementation.
 */
#ifndef TARRY_STORE_FS_H
#define TARRY_STORE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* State of a file that shows whether another program has written to it. */
struct fs_stamp {
    int64_t bytes; /* -1: unknown; matches any stamp */
    int64_t modified_ns;
};

/* Space on a file system that is available to an unprivileged user. */
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
    /* Works as pread, but returns -EAGAIN instead of waiting for the disk. May be the same as pread
     * if the system does not support this. */
    ssize_t (*pread_cached)(void *ctx, int fd, void *into, size_t len, int64_t offset);
    ssize_t (*pwrite)(void *ctx, int fd, const void *from, size_t len, int64_t offset);
    int (*fdatasync)(void *ctx, int fd);
    int64_t (*size)(void *ctx, int fd);
    int (*truncate)(void *ctx, int fd, int64_t size);
    int (*rename)(void *ctx, const char *from, const char *to);
    int (*unlink)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path, int mode); /* succeeds if the directory exists */
    int (*fsync_dir)(void *ctx, const char *path);
    /* Makes the range read as zeros and take no disk space if the file system supports it, else
     * returns -EOPNOTSUPP. A file with a second hard link is treated as unsupported, since a backup
     * shares it. */
    int (*punch)(void *ctx, int fd, int64_t offset, int64_t bytes);
    /* Hints that the range will not be read soon, so that its synced part need not stay in the page
     * cache. NULL: not supported. */
    void (*forget)(void *ctx, int fd, int64_t offset, int64_t bytes);
    int64_t (*disk_bytes)(void *ctx, int fd); /* space of the file on disk, without holes */
    /* Calls `each` with every name in the directory except "." and "..". */
    int (*list)(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                void *each_ctx);
    /* Returns whether the path, resolved from its start, leads to the file open as `fd`, or with fd
     * -1 to the held directory of that path. NULL: it always does. */
    bool (*leads)(void *ctx, const char *path, int fd);
    /* has_steady_times returns whether the times of the file system are reliable. stamp returns the
     * file's stamp after an own write. has_stamp returns whether the file still has it. NULL, all:
     * no other program has access. */
    bool (*has_steady_times)(void *ctx, int fd);
    struct fs_stamp (*stamp)(void *ctx, int fd);
    bool (*has_stamp)(void *ctx, int fd, const struct fs_stamp *stamp);
    /* Returns the space on the file system of the file. NULL: unknown. */
    int (*room)(void *ctx, int fd, struct fs_room *out);
};

/* The real file system. The `ctx` of its operations is the directory that contains all paths
 * (fs_dir.h), which then resolves them from descriptors that it holds; or NULL, as here, to use
 * each path as it is. */
extern const struct fs fs_posix;

/* Calls fs->ops->leads if there is one. */
bool fs_leads(const struct fs *fs, const char *path, int fd);
/* Returns the file's stamp, or an unknown one if the times of the file system are unreliable. */
struct fs_stamp fs_stamp(const struct fs *fs, int fd);
/* Renews a stamp of fs_stamp after an own write. An unknown one stays unknown. */
void fs_stamp_renew(const struct fs *fs, int fd, struct fs_stamp *stamp);
bool fs_has_stamp(const struct fs *fs, int fd, const struct fs_stamp *stamp);

/*
 * The following functions repeat operations that transfer less than requested. With `may_block`
 * false they read only from the page cache, and return -EAGAIN if the range is not completely in
 * it.
 */

/* Returns the number of bytes read, which is less than `len` if the file ends before, or a negative
 * errno. */
ssize_t fs_pread_some(const struct fs *fs, int fd, bool may_block, void *into, size_t len,
                      int64_t offset);
/* Reads or writes all bytes. Returns 0, or a negative errno: -EBADMSG if the file ends before. */
int fs_pread_whole(const struct fs *fs, int fd, bool may_block, void *into, size_t len,
                   int64_t offset);
int fs_pwrite_whole(const struct fs *fs, int fd, const void *from, size_t len, int64_t offset);

/* Durably renames a complete and synced file to its final name, and syncs the directory. After a
 * failure *is_named (may be NULL) is true if only the sync failed: then it is unknown whether the
 * name survives a crash. */
int fs_give_name(const struct fs *fs, const char *dir, const char *from, const char *to,
                 bool *is_named);

#endif
