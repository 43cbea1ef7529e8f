/* Power cuts of the simulated disk, and reads of its content. */
#include "support/sim_fs_private.h"

#include <assert.h>
#include <string.h>

enum { SECTORS_A_PAGE = 8 };

/* ---- crashing ---- */

void sim_fs_fini(struct sim_fs *sim)
{
    sim_close_all(sim);
    sim_names_forget_changes(sim);
    sim_names_forget(&sim->now, false);
    sim_names_forget(&sim->durable, true);
}

/* Chooses the unsynced sectors that reached the disk. */
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
        lasting = (int64_t)random_below(&sim->random, (uint64_t)sim_inode_sectors(inode) + 1);
    /* Unchanged inodes stay shared. */
    changed = sim_inode_is_dirty(inode) || inode->lost || inode->size != inode->durable_size;
    if (changed)
        sim_inode_reserve(inode, 0);
    for (int64_t sector = 0; sector < sim_inode_sectors(inode); sector++) {
        lucky = is_lucky(sim, damage, sector, lasting, lucky);
        if (changed && inode->dirty[sector] && lucky)
            sim_inode_write_back(inode, sector);
    }
    inode->size = inode->durable_size;
    if (!changed)
        return;
    inode->lost = false;
    memset(inode->dirty, 0, (size_t)sim_inode_sectors(inode));
    if (inode->durable_size < inode->cap)
        memset(inode->durable + inode->durable_size, 0, (size_t)(inode->cap - inode->durable_size));
    memcpy(inode->now, inode->durable, (size_t)inode->cap);
    for (int64_t sector = 0; sector < sim_inode_sectors(inode); sector++)
        sim_inode_set_hole(inode, sector,
                           inode->durable_hole[sector] &&
                               (sector + 1) * SIM_SECTOR_BYTES <= inode->durable_size);
}

void sim_fs_crash(struct sim_fs *sim, enum sim_damage damage)
{
    sim_close_all(sim);
    sim->is_down = false;
    sim->fail_at = sim->fail_read_at = sim->crash_at = 0;
    sim->fail_for_ever = false;
    if (damage == SIM_KEEP_ALL)
        return;
    if (damage != SIM_DROP_UNSYNCED)
        sim_names_settle(sim, NULL,
                         (int)random_below(&sim->random, (uint64_t)sim->change_count + 1));
    sim_names_forget_changes(sim);
    sim_names_forget(&sim->now, false);
    for (int i = 0; i < sim->durable.count; i++) {
        struct sim_entry *entry = &sim->durable.entries[i];

        entry->inode->links++;
        sim_name_set(&sim->now, entry->name, entry->inode);
        if (entry->inode->links == 1)
            settle_inode(sim, entry->inode, damage);
    }
}

/* ---- looking ---- */

char *sim_fs_bytes(struct sim_fs *sim, const char *path, int64_t *size)
{
    struct sim_entry *entry = sim_name_find(&sim->now, path);

    if (!entry)
        return NULL;
    if (size)
        *size = entry->inode->size;
    if (entry->inode->cap)
        sim_inode_reserve(entry->inode, 0);
    return entry->inode->now;
}

void sim_fs_damage(struct sim_fs *sim, const char *path, int64_t at, unsigned char xor_with)
{
    struct sim_entry *entry = sim_name_find(&sim->now, path);

    assert(entry && at < entry->inode->size);
    sim_inode_reserve(entry->inode, 0);
    entry->inode->now[at] = (char)(entry->inode->now[at] ^ xor_with);
    entry->inode->durable[at] = entry->inode->now[at];
}
