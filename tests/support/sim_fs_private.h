/* Shared declarations of the simulated disk's files. Only for sim_fs*.c. */
#ifndef TARRY_TESTS_SIM_FS_PRIVATE_H
#define TARRY_TESTS_SIM_FS_PRIVATE_H

#include "support/sim_fs.h"

/* ---- sim_fs.c ---- */

/* Counts an I/O that is not a write: 0, or the errno with which it fails. */
int sim_io(struct sim_fs *sim);
void sim_close_all(struct sim_fs *sim);

/* ---- sim_fs_inode.c ---- */

void *sim_block_share(void *bytes);
void sim_inode_free_if_unused(struct sim_inode *inode);
/* Reserves blocks for writing, up to `size`: no clone shares them afterwards. */
void sim_inode_reserve(struct sim_inode *inode, int64_t size);
void sim_inode_set_hole(struct sim_inode *inode, int64_t sector, bool is_hole);
/* Returns the space it takes on the disk. */
int64_t sim_inode_space(const struct sim_inode *inode);
bool sim_inode_is_dirty(const struct sim_inode *inode);
int64_t sim_inode_sectors(const struct sim_inode *inode);
/* A sector becomes durable as it is. */
void sim_inode_write_back(struct sim_inode *inode, int64_t sector);
/* The file ends at `size` from now on. */
void sim_inode_cut(struct sim_inode *inode, int64_t size);

/* ---- sim_fs_names.c ---- */

/* Returns the entry, or NULL. */
struct sim_entry *sim_name_find(struct sim_dir_names *names, const char *path);
void sim_name_set(struct sim_dir_names *names, const char *path, struct sim_inode *inode);
void sim_name_remove(struct sim_dir_names *names, struct sim_entry *entry);
/* Notes a change that is not durable yet. `gone`, `made`: "" for no name; `inode` of `made`. */
void sim_names_note_change(struct sim_fs *sim, const char *gone, const char *made,
                           struct sim_inode *inode);
/* Makes the first `count` changes durable; only of one directory if `dir` names it. */
void sim_names_settle(struct sim_fs *sim, const char *dir, int count);
void sim_names_forget_changes(struct sim_fs *sim);
void sim_names_forget(struct sim_dir_names *names, bool durable);
/* Removes a name, as a function of the table. */
int sim_names_unlink(void *ctx, const char *path);
int sim_names_rename(void *ctx, const char *from, const char *to);
int sim_names_mkdir(void *ctx, const char *path, int mode);
int sim_names_fsync_dir(void *ctx, const char *path);
int sim_names_list(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                   void *each_ctx);

#endif
