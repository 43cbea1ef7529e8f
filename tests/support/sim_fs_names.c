/* Names of the simulated disk, and when a change of them lasts. */
#include "support/sim_fs_private.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

struct sim_entry *sim_name_find(struct sim_dir_names *names, const char *path)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->entries[i].name, path) == 0)
            return &names->entries[i];
    return NULL;
}

void sim_name_set(struct sim_dir_names *names, const char *path, struct sim_inode *inode)
{
    struct sim_entry *entry = sim_name_find(names, path);

    if (!entry) {
        assert(names->count < SIM_FILES_MAX && strlen(path) < SIM_NAME_BYTES);
        entry = &names->entries[names->count++];
        snprintf(entry->name, sizeof entry->name, "%s", path);
    }
    entry->inode = inode;
}

void sim_name_remove(struct sim_dir_names *names, struct sim_entry *entry)
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
    struct sim_entry *entry = sim_name_find(&sim->durable, path);

    if (entry) {
        struct sim_inode *inode = entry->inode;

        sim_name_remove(&sim->durable, entry);
        inode->durable_links--;
        sim_inode_free_if_unused(inode);
    }
}

static void apply(struct sim_fs *sim, const struct sim_change *change)
{
    if (*change->gone)
        drop_durable(sim, change->gone);
    if (change->inode) {
        drop_durable(sim, change->made);
        sim_name_set(&sim->durable, change->made, change->inode); /* takes over its reference */
    }
}

/* Makes the first `count` changes durable; only of one directory if `dir` names it. The others remain pending. */
void sim_names_settle(struct sim_fs *sim, const char *dir, int count)
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

void sim_names_forget_changes(struct sim_fs *sim)
{
    while (sim->change_count) {
        struct sim_inode *inode = sim->changes[--sim->change_count].inode;

        if (inode) {
            inode->durable_links--;
            sim_inode_free_if_unused(inode);
        }
    }
}

void sim_names_note_change(struct sim_fs *sim, const char *gone, const char *made,
                           struct sim_inode *inode)
{
    struct sim_change *change;

    if (sim->change_count == SIM_FILES_MAX) /* too many to remember: the disk wrote some back */
        sim_names_settle(sim, NULL, SIM_FILES_MAX / 2);
    change = &sim->changes[sim->change_count++];
    snprintf(change->gone, sizeof change->gone, "%s", gone);
    snprintf(change->made, sizeof change->made, "%s", made);
    change->inode = inode;
    if (inode)
        inode->durable_links++;
}

/* ---- the operations ---- */

int sim_names_unlink(void *ctx, const char *path)
{
    struct sim_fs *sim = ctx;
    struct sim_entry *entry = sim_name_find(&sim->now, path);
    int fault = sim_io(sim);

    if (fault < 0)
        return fault;
    if (!entry)
        return -ENOENT;
    sim_names_note_change(sim, path, "", NULL);
    entry->inode->links--;
    sim_inode_free_if_unused(entry->inode);
    sim_name_remove(&sim->now, entry);
    return 0;
}

int sim_names_rename(void *ctx, const char *from, const char *to)
{
    struct sim_fs *sim = ctx;
    struct sim_entry *entry = sim_name_find(&sim->now, from), *old;
    struct sim_inode *inode;
    int fault = sim_io(sim);

    if (fault < 0)
        return fault;
    if (!entry)
        return -ENOENT;
    inode = entry->inode;
    sim_name_remove(&sim->now, entry);
    old = sim_name_find(&sim->now, to);
    if (old) {
        old->inode->links--;
        sim_inode_free_if_unused(old->inode);
    }
    sim_name_set(&sim->now, to, inode);
    sim_names_note_change(sim, from, to, inode);
    return 0;
}

int sim_names_mkdir(void *ctx, const char *path, int mode)
{
    (void)path;
    (void)mode;
    return sim_io(ctx); /* directories are there when something is in them */
}

int sim_names_fsync_dir(void *ctx, const char *path)
{
    struct sim_fs *sim = ctx;
    int fault = sim_io(sim);

    if (fault == 0)
        sim_names_settle(sim, path, sim->change_count);
    return fault;
}

int sim_names_list(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
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

void sim_names_forget(struct sim_dir_names *names, bool durable)
{
    while (names->count) {
        struct sim_inode *inode = names->entries[--names->count].inode;

        if (durable)
            inode->durable_links--;
        else
            inode->links--;
        sim_inode_free_if_unused(inode);
    }
}
