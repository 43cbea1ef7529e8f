#include "support/sim_fs_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { FD_BASE = 1000 };

/* ---- faults ---- */

/* Counts an I/O. Returns 0, or the errno with which it fails. */
static int count_io(struct sim_fs *sim, bool is_write)
{
    if (sim->is_down)
        return -EIO;
    sim->ios++;
    if (sim->at_io && !is_write)
        sim->at_io(sim->at_io_ctx);
    if (sim->crash_at && sim->ios >= sim->crash_at) {
        sim->is_down = true;
        return -EIO;
    }
    if (sim->fail_at &&
        (sim->ios == sim->fail_at || (sim->fail_for_ever && sim->ios > sim->fail_at)))
        return -sim->fail_errno;
    return 0;
}

int sim_io(struct sim_fs *sim)
{
    return count_io(sim, false);
}

static int read_fault(struct sim_fs *sim)
{
    uint64_t read;

    if (sim->is_down)
        return -EIO;
    read = __atomic_add_fetch(&sim->reads, 1, __ATOMIC_RELAXED); /* readers may be many */
    if (sim->fail_read_at &&
        (read == sim->fail_read_at || (sim->fail_for_ever && read > sim->fail_read_at)))
        return -EIO;
    return 0;
}

static struct sim_inode *inode_of(struct sim_fs *sim, int fd)
{
    assert(fd >= FD_BASE && fd < FD_BASE + SIM_FDS_MAX && sim->fds[fd - FD_BASE]);
    return sim->fds[fd - FD_BASE];
}

/* ---- the table ---- */

static int sim_open(void *ctx, const char *path, int flags, int mode)
{
    struct sim_fs *sim = ctx;
    struct sim_entry *entry = sim_name_find(&sim->now, path);
    int fault, slot = 0;

    (void)mode;
    if ((fault = flags & O_CREAT ? sim_io(sim) : sim->is_down ? -EIO : 0) < 0)
        return fault;
    if (!entry && !(flags & O_CREAT))
        return -ENOENT;
    while (slot < SIM_FDS_MAX && sim->fds[slot])
        slot++;
    if (slot == SIM_FDS_MAX)
        return -EMFILE;
    if (!entry) {
        struct sim_inode *inode = calloc(1, sizeof *inode);

        assert(inode);
        inode->links = 1;
        sim_name_set(&sim->now, path, inode);
        sim_names_note_change(sim, "", path, inode);
        entry = sim_name_find(&sim->now, path);
    } else if ((flags & O_TRUNC) && entry->inode->cap) {
        sim_inode_reserve(entry->inode, 0);
        sim_inode_cut(entry->inode, 0);
    }
    sim->fds[slot] = entry->inode;
    entry->inode->opens++;
    return FD_BASE + slot;
}

static int sim_close(void *ctx, int fd)
{
    struct sim_fs *sim = ctx;
    struct sim_inode *inode = inode_of(sim, fd);

    sim->fds[fd - FD_BASE] = NULL;
    inode->opens--;
    sim_inode_free_if_unused(inode);
    return 0;
}

void sim_close_all(struct sim_fs *sim)
{
    for (int i = 0; i < SIM_FDS_MAX; i++)
        if (sim->fds[i])
            sim_close(sim, FD_BASE + i);
}

static ssize_t sim_pread(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    struct sim_fs *sim = ctx;
    struct sim_inode *inode = inode_of(sim, fd);
    int fault = read_fault(sim);

    if (fault < 0)
        return fault;
    if (offset >= inode->size)
        return 0;
    if ((int64_t)len > inode->size - offset)
        len = (size_t)(inode->size - offset);
    memcpy(into, inode->now + offset, len);
    return (ssize_t)len;
}

static ssize_t sim_pread_cached(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    struct sim_fs *sim = ctx;

    return sim->is_cold ? -EAGAIN : sim_pread(ctx, fd, into, len, offset);
}

static int64_t bytes_of_all(const struct sim_fs *sim)
{
    int64_t bytes = 0;

    for (int i = 0; i < sim->now.count; i++)
        bytes += sim->now.entries[i].inode ? sim_inode_space(sim->now.entries[i].inode) : 0;
    return bytes;
}

static void put(struct sim_fs *sim, struct sim_inode *inode, const char *from, size_t len,
                int64_t offset)
{
    if (!len)
        return;
    sim_inode_reserve(inode, offset + (int64_t)len);
    memcpy(inode->now + offset, from, len);
    if (offset + (int64_t)len > inode->size)
        inode->size = offset + (int64_t)len;
    for (int64_t sector = offset / SIM_SECTOR_BYTES;
         sector <= (offset + (int64_t)len - 1) / SIM_SECTOR_BYTES; sector++) {
        sim_inode_set_hole(inode, sector, false);
        inode->dirty[sector] = true;
        if (!sim->no_writeback && random_below(&sim->random, 16) == 0)
            sim_inode_write_back(inode, sector);
    }
}

/* The space a write takes that the file did not take before. */
static int64_t growth(const struct sim_inode *inode, int64_t offset, int64_t len)
{
    int64_t bytes = offset + len > inode->size ? offset + len - inode->size : 0;

    for (int64_t sector = offset / SIM_SECTOR_BYTES;
         sector < sim_inode_sectors(inode) && sector * SIM_SECTOR_BYTES < offset + len; sector++)
        bytes += inode->hole[sector] ? SIM_SECTOR_BYTES : 0;
    return bytes;
}

static ssize_t sim_pwrite(void *ctx, int fd, const void *from, size_t len, int64_t offset)
{
    struct sim_fs *sim = ctx;
    struct sim_inode *inode = inode_of(sim, fd);
    bool was_down = sim->is_down;
    int64_t grow = sim->bytes_max ? growth(inode, offset, (int64_t)len) : 0;
    int fault = count_io(sim, true);

    if (fault < 0) {
        /* A part of it may have got there. */
        if (!was_down && fault != -ENOSPC)
            put(sim, inode, from, random_below(&sim->random, len + 1), offset);
        return fault;
    }
    if (sim->bytes_max && grow > 0 && bytes_of_all(sim) + grow > sim->bytes_max)
        return -ENOSPC;
    if (len > 1 && random_below(&sim->random, 8) == 0) /* a short count is not a fault */
        len = 1 + random_below(&sim->random, len - 1);
    put(sim, inode, from, len, offset);
    if (sim->at_io)
        sim->at_io(sim->at_io_ctx);
    return (ssize_t)len;
}

static int sim_fdatasync(void *ctx, int fd)
{
    struct sim_fs *sim = ctx;
    struct sim_inode *inode = inode_of(sim, fd);
    bool any;
    int fault = sim_io(sim);

    if (fault < 0 && sim->is_down)
        return fault;
    any = sim_inode_is_dirty(inode);
    if (any)
        sim_inode_reserve(inode, 0);
    for (int64_t sector = 0; any && sector < sim_inode_sectors(inode); sector++) {
        if (!inode->dirty[sector])
            continue;
        if (fault == 0 || random_below(&sim->random, 2)) {
            sim_inode_write_back(inode, sector);
        } else {
            inode->dirty[sector] = false; /* lost, and called clean */
            inode->lost = true;
        }
    }
    if (fault == 0) {
        inode->durable_size = inode->size;
        sim->syncs++;
    }
    return fault;
}

static int64_t sim_size(void *ctx, int fd)
{
    return inode_of(ctx, fd)->size;
}

static int sim_truncate(void *ctx, int fd, int64_t size)
{
    struct sim_fs *sim = ctx;
    struct sim_inode *inode = inode_of(sim, fd);
    int fault = sim_io(sim);

    if (fault < 0)
        return fault;
    sim_inode_reserve(inode, size);
    if (size < inode->size)
        sim_inode_cut(inode, size);
    inode->size = size;
    return 0;
}

/* Zeros a part of a file. The zeros reach the disk at any time, like other writes; if the power goes in the middle,
 * only some of them. */
static int sim_punch(void *ctx, int fd, int64_t offset, int64_t bytes)
{
    struct sim_fs *sim = ctx;
    struct sim_inode *inode = inode_of(sim, fd);
    bool was_down = sim->is_down;
    int fault = sim_io(sim);

    assert(offset >= 0 && bytes > 0);
    if (fault == 0 && sim->no_punch)
        return -EOPNOTSUPP;
    if (bytes > inode->size - offset)
        bytes = inode->size - offset;
    if (fault < 0)
        bytes = was_down ? 0 : (int64_t)random_below(&sim->random, (uint64_t)bytes + 1);
    for (int64_t at = offset, next; at < offset + bytes; at = next) {
        static const char zeros[SIM_SECTOR_BYTES];
        int64_t sector = at / SIM_SECTOR_BYTES;

        next = (sector + 1) * SIM_SECTOR_BYTES;
        next = next < offset + bytes ? next : offset + bytes;
        put(sim, inode, zeros, (size_t)(next - at), at);
        sim_inode_set_hole(inode, sector, next - at == SIM_SECTOR_BYTES);
        if (!inode->dirty[sector]) /* the disk was quick */
            sim_inode_write_back(inode, sector);
    }
    return fault;
}

static int64_t sim_disk_bytes(void *ctx, int fd)
{
    return sim_inode_space(inode_of(ctx, fd));
}

static const struct fs_ops sim_ops = {
    .open = sim_open,
    .close = sim_close,
    .pread = sim_pread,
    .pread_cached = sim_pread_cached,
    .pwrite = sim_pwrite,
    .fdatasync = sim_fdatasync,
    .size = sim_size,
    .truncate = sim_truncate,
    .rename = sim_names_rename,
    .unlink = sim_names_unlink,
    .mkdir = sim_names_mkdir,
    .fsync_dir = sim_names_fsync_dir,
    .list = sim_names_list,
    .punch = sim_punch,
    .disk_bytes = sim_disk_bytes,
};

void sim_fs_init(struct sim_fs *sim, uint64_t seed)
{
    memset(sim, 0, sizeof *sim);
    sim->fs = (struct fs){.ops = &sim_ops, .ctx = sim};
    sim->random.state = seed;
    sim->fail_errno = EIO;
}
