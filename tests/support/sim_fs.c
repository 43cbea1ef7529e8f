#include "support/sim_fs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FD_BASE = 1000, SECTORS_A_PAGE = 8 };

/* ---- blocks: memory that clones share until one of them writes ---- */

struct block {
    size_t refs;
    char bytes[];
};

static struct block *block_of(void *bytes)
{
    return (struct block *)(void *)((char *)bytes - offsetof(struct block, bytes));
}

/* The first `used` bytes as in `old` (may be NULL), the others zero. */
static void *block_new(const void *old, size_t used, size_t size)
{
    struct block *block = malloc(sizeof *block + size);

    assert(block);
    block->refs = 1;
    if (used)
        memcpy(block->bytes, old, used);
    memset(block->bytes + used, 0, size - used);
    return block->bytes;
}

static void *block_share(void *bytes)
{
    if (bytes)
        block_of(bytes)->refs++;
    return bytes;
}

static void block_release(void *bytes)
{
    if (bytes && --block_of(bytes)->refs == 0)
        free(block_of(bytes));
}

/* `bytes`, of `used`, for writing to, with room for `size`. */
static void *block_own(void *bytes, size_t used, size_t size)
{
    void *own;

    if (bytes && used == size && block_of(bytes)->refs == 1)
        return bytes;
    own = block_new(bytes, used, size);
    block_release(bytes);
    return own;
}

/* ---- inodes ---- */

static void inode_free_if_unused(struct sim_inode *inode)
{
    if (inode->links || inode->opens || inode->durable_links)
        return;
    block_release(inode->now);
    block_release(inode->durable);
    block_release(inode->dirty);
    block_release(inode->hole);
    block_release(inode->durable_hole);
    free(inode);
}

static bool *map_own(bool *map, size_t used, int64_t cap)
{
    return block_own(map, used / SIM_SECTOR_BYTES, (size_t)cap / SIM_SECTOR_BYTES);
}

/* For writing, up to `size`. */
static void inode_reserve(struct sim_inode *inode, int64_t size)
{
    int64_t cap = inode->cap ? inode->cap : 4096;
    size_t used = (size_t)inode->cap;

    while (cap < size)
        cap *= 2;
    inode->now = block_own(inode->now, used, (size_t)cap);
    inode->durable = block_own(inode->durable, used, (size_t)cap);
    inode->dirty = map_own(inode->dirty, used, cap);
    inode->hole = map_own(inode->hole, used, cap);
    inode->durable_hole = map_own(inode->durable_hole, used, cap);
    inode->cap = cap;
}

static void set_hole(struct sim_inode *inode, int64_t sector, bool is_hole)
{
    inode->holes += is_hole - inode->hole[sector];
    inode->hole[sector] = is_hole;
}

static int64_t space_of(const struct sim_inode *inode)
{
    return inode->size - inode->holes * SIM_SECTOR_BYTES;
}

static bool inode_is_dirty(const struct sim_inode *inode)
{
    return inode->cap && memchr(inode->dirty, true, (size_t)(inode->cap / SIM_SECTOR_BYTES));
}

static void write_back(struct sim_inode *inode, int64_t sector)
{
    int64_t at = sector * SIM_SECTOR_BYTES;

    memcpy(inode->durable + at, inode->now + at, SIM_SECTOR_BYTES);
    inode->durable_hole[sector] = inode->hole[sector];
    inode->dirty[sector] = false;
}

static int64_t sectors(const struct sim_inode *inode)
{
    return inode->cap / SIM_SECTOR_BYTES;
}

/* The file ends at `size` from now on. */
static void cut(struct sim_inode *inode, int64_t size)
{
    memset(inode->now + size, 0, (size_t)(inode->cap - size));
    for (int64_t sector = size / SIM_SECTOR_BYTES; sector < sectors(inode); sector++)
        set_hole(inode, sector, false);
    memset(inode->dirty, 1, (size_t)sectors(inode));
    inode->size = size;
}

/* ---- names ---- */

static struct sim_entry *find(struct sim_dir_names *names, const char *path)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->entries[i].name, path) == 0)
            return &names->entries[i];
    return NULL;
}

static void set_name(struct sim_dir_names *names, const char *path, struct sim_inode *inode)
{
    struct sim_entry *entry = find(names, path);

    if (!entry) {
        assert(names->count < SIM_FILES_MAX && strlen(path) < SIM_NAME_BYTES);
        entry = &names->entries[names->count++];
        snprintf(entry->name, sizeof entry->name, "%s", path);
    }
    entry->inode = inode;
}

static void remove_name(struct sim_dir_names *names, struct sim_entry *entry)
{
    *entry = names->entries[--names->count];
}

static bool is_in(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    return strncmp(path, dir, len) == 0 && path[len] == '/' && !strchr(path + len + 1, '/');
}

/* ---- changes of names, and when they last ---- */

static void drop_durable(struct sim_fs *sim, const char *path)
{
    struct sim_entry *entry = find(&sim->durable, path);

    if (entry) {
        struct sim_inode *inode = entry->inode;

        remove_name(&sim->durable, entry);
        inode->durable_links--;
        inode_free_if_unused(inode);
    }
}

static void apply(struct sim_fs *sim, const struct sim_change *change)
{
    if (*change->gone)
        drop_durable(sim, change->gone);
    if (change->inode) {
        drop_durable(sim, change->made);
        set_name(&sim->durable, change->made, change->inode); /* takes over its reference */
    }
}

/* The first `count` changes; of one directory only where `dir` says so. The others stay to come. */
static void settle(struct sim_fs *sim, const char *dir, int count)
{
    int left = 0;

    for (int i = 0; i < sim->change_count; i++) {
        struct sim_change *change = &sim->changes[i];

        if (i < count && (!dir || is_in(*change->made ? change->made : change->gone, dir)))
            apply(sim, change);
        else
            sim->changes[left++] = *change;
    }
    sim->change_count = left;
}

static void forget_changes(struct sim_fs *sim)
{
    while (sim->change_count) {
        struct sim_inode *inode = sim->changes[--sim->change_count].inode;

        if (inode) {
            inode->durable_links--;
            inode_free_if_unused(inode);
        }
    }
}

static void note_change(struct sim_fs *sim, const char *gone, const char *made,
                        struct sim_inode *inode)
{
    struct sim_change *change;

    if (sim->change_count == SIM_FILES_MAX) /* too many to remember: the disk wrote some back */
        settle(sim, NULL, SIM_FILES_MAX / 2);
    change = &sim->changes[sim->change_count++];
    snprintf(change->gone, sizeof change->gone, "%s", gone);
    snprintf(change->made, sizeof change->made, "%s", made);
    change->inode = inode;
    if (inode)
        inode->durable_links++;
}

/* ---- faults ---- */

/* 0, or the errno this I/O fails with. */
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

static int io(struct sim_fs *sim)
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
    struct sim_entry *entry = find(&sim->now, path);
    int fault, slot = 0;

    (void)mode;
    if ((fault = flags & O_CREAT ? io(sim) : sim->is_down ? -EIO : 0) < 0)
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
        set_name(&sim->now, path, inode);
        note_change(sim, "", path, inode);
        entry = find(&sim->now, path);
    } else if ((flags & O_TRUNC) && entry->inode->cap) {
        inode_reserve(entry->inode, 0);
        cut(entry->inode, 0);
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
    inode_free_if_unused(inode);
    return 0;
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
        bytes += sim->now.entries[i].inode ? space_of(sim->now.entries[i].inode) : 0;
    return bytes;
}

static void put(struct sim_fs *sim, struct sim_inode *inode, const char *from, size_t len,
                int64_t offset)
{
    if (!len)
        return;
    inode_reserve(inode, offset + (int64_t)len);
    memcpy(inode->now + offset, from, len);
    if (offset + (int64_t)len > inode->size)
        inode->size = offset + (int64_t)len;
    for (int64_t sector = offset / SIM_SECTOR_BYTES;
         sector <= (offset + (int64_t)len - 1) / SIM_SECTOR_BYTES; sector++) {
        set_hole(inode, sector, false);
        inode->dirty[sector] = true;
        if (!sim->no_writeback && random_below(&sim->random, 16) == 0)
            write_back(inode, sector);
    }
}

/* The space a write takes that the file did not take before. */
static int64_t growth(const struct sim_inode *inode, int64_t offset, int64_t len)
{
    int64_t bytes = offset + len > inode->size ? offset + len - inode->size : 0;

    for (int64_t sector = offset / SIM_SECTOR_BYTES;
         sector < sectors(inode) && sector * SIM_SECTOR_BYTES < offset + len; sector++)
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
    if (len > 1 && random_below(&sim->random, 8) == 0) /* a short count is no fault */
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
    int fault = io(sim);

    if (fault < 0 && sim->is_down)
        return fault;
    any = inode_is_dirty(inode);
    if (any)
        inode_reserve(inode, 0);
    for (int64_t sector = 0; any && sector < sectors(inode); sector++) {
        if (!inode->dirty[sector])
            continue;
        if (fault == 0 || random_below(&sim->random, 2)) {
            write_back(inode, sector);
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
    int fault = io(sim);

    if (fault < 0)
        return fault;
    inode_reserve(inode, size);
    if (size < inode->size)
        cut(inode, size);
    inode->size = size;
    return 0;
}

/* Zeros that reach the disk when they like, as any other write; where the power goes in the middle,
 * some of them. */
static int sim_punch(void *ctx, int fd, int64_t offset, int64_t bytes)
{
    struct sim_fs *sim = ctx;
    struct sim_inode *inode = inode_of(sim, fd);
    bool was_down = sim->is_down;
    int fault = io(sim);

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
        set_hole(inode, sector, next - at == SIM_SECTOR_BYTES);
        if (!inode->dirty[sector]) /* the disk was quick */
            write_back(inode, sector);
    }
    return fault;
}

static int64_t sim_disk_bytes(void *ctx, int fd)
{
    return space_of(inode_of(ctx, fd));
}

static int sim_unlink(void *ctx, const char *path)
{
    struct sim_fs *sim = ctx;
    struct sim_entry *entry = find(&sim->now, path);
    int fault = io(sim);

    if (fault < 0)
        return fault;
    if (!entry)
        return -ENOENT;
    note_change(sim, path, "", NULL);
    entry->inode->links--;
    inode_free_if_unused(entry->inode);
    remove_name(&sim->now, entry);
    return 0;
}

static int sim_rename(void *ctx, const char *from, const char *to)
{
    struct sim_fs *sim = ctx;
    struct sim_entry *entry = find(&sim->now, from), *old;
    struct sim_inode *inode;
    int fault = io(sim);

    if (fault < 0)
        return fault;
    if (!entry)
        return -ENOENT;
    inode = entry->inode;
    remove_name(&sim->now, entry);
    old = find(&sim->now, to);
    if (old) {
        old->inode->links--;
        inode_free_if_unused(old->inode);
    }
    set_name(&sim->now, to, inode);
    note_change(sim, from, to, inode);
    return 0;
}

static int sim_mkdir(void *ctx, const char *path, int mode)
{
    (void)path;
    (void)mode;
    return io(ctx); /* directories are there when something is in them */
}

static int sim_fsync_dir(void *ctx, const char *path)
{
    struct sim_fs *sim = ctx;
    int fault = io(sim);

    if (fault == 0)
        settle(sim, path, sim->change_count);
    return fault;
}

static int sim_list(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                    void *each_ctx)
{
    struct sim_fs *sim = ctx;

    if (sim->is_down)
        return -EIO;
    for (int i = 0; i < sim->now.count; i++)
        if (is_in(sim->now.entries[i].name, path))
            each(each_ctx, strrchr(sim->now.entries[i].name, '/') + 1);
    return 0;
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
    .rename = sim_rename,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .fsync_dir = sim_fsync_dir,
    .list = sim_list,
    .punch = sim_punch,
    .disk_bytes = sim_disk_bytes,
};

/* ---- making, crashing ---- */

void sim_fs_init(struct sim_fs *sim, uint64_t seed)
{
    memset(sim, 0, sizeof *sim);
    sim->fs = (struct fs){.ops = &sim_ops, .ctx = sim};
    sim->random.state = seed;
    sim->fail_errno = EIO;
}

static void forget_names(struct sim_dir_names *names, bool durable)
{
    while (names->count) {
        struct sim_inode *inode = names->entries[--names->count].inode;

        if (durable)
            inode->durable_links--;
        else
            inode->links--;
        inode_free_if_unused(inode);
    }
}

void sim_fs_fini(struct sim_fs *sim)
{
    for (int i = 0; i < SIM_FDS_MAX; i++)
        if (sim->fds[i])
            sim_close(sim, FD_BASE + i);
    forget_changes(sim);
    forget_names(&sim->now, false);
    forget_names(&sim->durable, true);
}

/* Which of the unsynced sectors got there. */
static bool is_lucky(struct sim_fs *sim, enum sim_damage damage, int64_t sector, int64_t lasting,
                     bool was_lucky)
{
    if (damage == SIM_PREFIX)
        return sector < lasting;
    if (damage == SIM_SOME_SECTORS || (damage == SIM_SOME_PAGES && sector % SECTORS_A_PAGE == 0))
        return random_below(&sim->random, 2);
    return was_lucky;
}

static void settle_inode(struct sim_fs *sim, struct sim_inode *inode, enum sim_damage damage)
{
    bool lucky = false, changed;
    int64_t lasting = 0;

    if (damage == SIM_GROWN_BUT_ZERO ||
        (damage != SIM_DROP_UNSYNCED && random_below(&sim->random, 2)))
        inode->durable_size = inode->size;
    if (damage == SIM_PREFIX)
        lasting = (int64_t)random_below(&sim->random, (uint64_t)sectors(inode) + 1);
    /* What did not change stays shared. */
    changed = inode_is_dirty(inode) || inode->lost || inode->size != inode->durable_size;
    if (changed)
        inode_reserve(inode, 0);
    for (int64_t sector = 0; sector < sectors(inode); sector++) {
        lucky = is_lucky(sim, damage, sector, lasting, lucky);
        if (changed && inode->dirty[sector] && lucky)
            write_back(inode, sector);
    }
    inode->size = inode->durable_size;
    if (!changed)
        return;
    inode->lost = false;
    memset(inode->dirty, 0, (size_t)sectors(inode));
    if (inode->durable_size < inode->cap)
        memset(inode->durable + inode->durable_size, 0, (size_t)(inode->cap - inode->durable_size));
    memcpy(inode->now, inode->durable, (size_t)inode->cap);
    for (int64_t sector = 0; sector < sectors(inode); sector++)
        set_hole(inode, sector,
                 inode->durable_hole[sector] &&
                     (sector + 1) * SIM_SECTOR_BYTES <= inode->durable_size);
}

void sim_fs_crash(struct sim_fs *sim, enum sim_damage damage)
{
    for (int i = 0; i < SIM_FDS_MAX; i++)
        if (sim->fds[i])
            sim_close(sim, FD_BASE + i);
    sim->is_down = false;
    sim->fail_at = sim->fail_read_at = sim->crash_at = 0;
    sim->fail_for_ever = false;
    if (damage == SIM_KEEP_ALL)
        return;
    if (damage != SIM_DROP_UNSYNCED)
        settle(sim, NULL, (int)random_below(&sim->random, (uint64_t)sim->change_count + 1));
    forget_changes(sim);
    forget_names(&sim->now, false);
    for (int i = 0; i < sim->durable.count; i++) {
        struct sim_entry *entry = &sim->durable.entries[i];

        entry->inode->links++;
        set_name(&sim->now, entry->name, entry->inode);
        if (entry->inode->links == 1)
            settle_inode(sim, entry->inode, damage);
    }
}

/* ---- looking ---- */

char *sim_fs_bytes(struct sim_fs *sim, const char *path, int64_t *size)
{
    struct sim_entry *entry = find(&sim->now, path);

    if (!entry)
        return NULL;
    if (size)
        *size = entry->inode->size;
    if (entry->inode->cap)
        inode_reserve(entry->inode, 0);
    return entry->inode->now;
}

void sim_fs_damage(struct sim_fs *sim, const char *path, int64_t at, unsigned char xor_with)
{
    struct sim_entry *entry = find(&sim->now, path);

    assert(entry && at < entry->inode->size);
    inode_reserve(entry->inode, 0);
    entry->inode->now[at] = (char)(entry->inode->now[at] ^ xor_with);
    entry->inode->durable[at] = entry->inode->now[at];
}

/* Each inode once, however many names it has. */
static struct sim_inode *clone_of(struct sim_inode *old)
{
    if (old && !old->clone) {
        struct sim_inode *inode = malloc(sizeof *inode);

        assert(inode);
        *inode = *old;
        inode->now = block_share(old->now);
        inode->durable = block_share(old->durable);
        inode->dirty = block_share(old->dirty);
        inode->hole = block_share(old->hole);
        inode->durable_hole = block_share(old->durable_hole);
        inode->opens = 0;
        old->clone = inode;
    }
    return old ? old->clone : NULL;
}

static void clone_names(struct sim_dir_names *to, const struct sim_dir_names *from)
{
    to->count = from->count;
    memcpy(to->entries, from->entries, (size_t)from->count * sizeof *from->entries);
    for (int i = 0; i < from->count; i++)
        to->entries[i].inode = clone_of(from->entries[i].inode);
}

static void forget_clones(const struct sim_dir_names *names)
{
    for (int i = 0; i < names->count; i++)
        if (names->entries[i].inode)
            names->entries[i].inode->clone = NULL;
}

void sim_fs_clone(struct sim_fs *to, const struct sim_fs *from, uint64_t seed)
{
    sim_fs_init(to, seed);
    to->no_writeback = from->no_writeback;
    to->bytes_max = from->bytes_max;
    clone_names(&to->now, &from->now);
    clone_names(&to->durable, &from->durable);
    to->change_count = from->change_count;
    memcpy(to->changes, from->changes, (size_t)from->change_count * sizeof *from->changes);
    for (int i = 0; i < from->change_count; i++)
        to->changes[i].inode = clone_of(from->changes[i].inode);
    forget_clones(&from->now);
    forget_clones(&from->durable);
    for (int i = 0; i < from->change_count; i++)
        if (from->changes[i].inode)
            from->changes[i].inode->clone = NULL;
}

void sim_fs_copy(struct sim_fs *to, const struct sim_fs *from)
{
    sim_fs_init(to, from->random.state);
    for (int i = 0; i < from->now.count; i++) {
        const struct sim_inode *old = from->now.entries[i].inode;
        struct sim_inode *inode = calloc(1, sizeof *inode);

        assert(inode);
        inode_reserve(inode, old->cap);
        memcpy(inode->now, old->now, (size_t)old->cap);
        memcpy(inode->durable, old->now, (size_t)old->cap);
        memcpy(inode->hole, old->hole, (size_t)sectors(inode) * sizeof *old->hole);
        memcpy(inode->durable_hole, old->hole, (size_t)sectors(inode) * sizeof *old->hole);
        inode->holes = old->holes;
        inode->size = inode->durable_size = old->size;
        inode->links = inode->durable_links = 1;
        set_name(&to->now, from->now.entries[i].name, inode);
        set_name(&to->durable, from->now.entries[i].name, inode);
    }
}
