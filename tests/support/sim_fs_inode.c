/* Files of the simulated disk: what reading shows, what is durable, what takes space. */
#include "support/sim_fs_private.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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

void *sim_block_share(void *bytes)
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

void sim_inode_free_if_unused(struct sim_inode *inode)
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

/* Reserves blocks for writing, up to `size`. */
void sim_inode_reserve(struct sim_inode *inode, int64_t size)
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

void sim_inode_set_hole(struct sim_inode *inode, int64_t sector, bool is_hole)
{
    inode->holes += is_hole - inode->hole[sector];
    inode->hole[sector] = is_hole;
}

int64_t sim_inode_space(const struct sim_inode *inode)
{
    return inode->size - inode->holes * SIM_SECTOR_BYTES;
}

bool sim_inode_is_dirty(const struct sim_inode *inode)
{
    return inode->cap && memchr(inode->dirty, true, (size_t)(inode->cap / SIM_SECTOR_BYTES));
}

void sim_inode_write_back(struct sim_inode *inode, int64_t sector)
{
    int64_t at = sector * SIM_SECTOR_BYTES;

    memcpy(inode->durable + at, inode->now + at, SIM_SECTOR_BYTES);
    inode->durable_hole[sector] = inode->hole[sector];
    inode->dirty[sector] = false;
}

int64_t sim_inode_sectors(const struct sim_inode *inode)
{
    return inode->cap / SIM_SECTOR_BYTES;
}

/* The file ends at `size` from now on. */
void sim_inode_cut(struct sim_inode *inode, int64_t size)
{
    memset(inode->now + size, 0, (size_t)(inode->cap - size));
    for (int64_t sector = size / SIM_SECTOR_BYTES; sector < sim_inode_sectors(inode); sector++)
        sim_inode_set_hole(inode, sector, false);
    memset(inode->dirty, 1, (size_t)sim_inode_sectors(inode));
    inode->size = size;
}
