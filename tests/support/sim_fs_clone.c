/* A second disk like the first. */
#include "support/sim_fs_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Clones each inode once, however many names it has. */
static struct sim_inode *clone_of(struct sim_inode *old)
{
    if (old && !old->clone) {
        struct sim_inode *inode = malloc(sizeof *inode);

        assert(inode);
        *inode = *old;
        inode->now = sim_block_share(old->now);
        inode->durable = sim_block_share(old->durable);
        inode->dirty = sim_block_share(old->dirty);
        inode->hole = sim_block_share(old->hole);
        inode->durable_hole = sim_block_share(old->durable_hole);
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
        sim_inode_reserve(inode, old->cap);
        memcpy(inode->now, old->now, (size_t)old->cap);
        memcpy(inode->durable, old->now, (size_t)old->cap);
        memcpy(inode->hole, old->hole, (size_t)sim_inode_sectors(inode) * sizeof *old->hole);
        memcpy(inode->durable_hole, old->hole,
               (size_t)sim_inode_sectors(inode) * sizeof *old->hole);
        inode->holes = old->holes;
        inode->size = inode->durable_size = old->size;
        inode->links = inode->durable_links = 1;
        sim_name_set(&to->now, from->now.entries[i].name, inode);
        sim_name_set(&to->durable, from->now.entries[i].name, inode);
    }
}
