/*
 * fs_dir: a directory that is held by its descriptor, with those below it.
 *
 * Who opens a file by the whole of its path may find another directory there than a moment before:
 * it was renamed, or something was mounted over it. So a path is only a name here: each directory
 * is opened once, the first from its path, the others from the one they lie in, and from then on
 * files are reached from that descriptor. Whether the path still leads there can be asked.
 *
 * Each one is locked (flock on the directory itself), so that it takes more than removing a file to
 * let a second one in, and a part that was moved elsewhere is locked there. File systems that lock
 * no directories are told nothing of it.
 *
 * Run by root on another user's directory, what is made belongs to that user.
 *
 * Any thread, but open and close. Errors: negative errno; -EBUSY: another one has it locked.
 */
#ifndef TARRY_STORE_FS_DIR_H
#define TARRY_STORE_FS_DIR_H

#include <stdbool.h>
#include <sys/types.h>

struct fs_dir;

enum fs_dir_lock { FS_DIR_SHARED = 1, FS_DIR_ALONE };

/* Of a directory that is there. */
int fs_dir_open(const char *path, enum fs_dir_lock lock, struct fs_dir **out);
void fs_dir_close(struct fs_dir *dir); /* gives the locks back */
/* In a child that was forked, once: lets go of the locks that it has inherited, which the parent keeps. */
void fs_dir_leave(struct fs_dir *dir);

/* The directory's own descriptor. */
int fs_dir_fd(const struct fs_dir *dir);

/* The descriptor that `path` is held by: the directory's own path, or that of a directory below it.
 * Ours to close. */
int fs_dir_hold(struct fs_dir *dir, const char *path);

/* The same for the directory that the last part of `path` lies in; *name is that section. */
int fs_dir_hold_parent(struct fs_dir *dir, const char *path, const char **name);

/* Whether `path` leads to what `fd` is open on. False with errno: ESTALE, or why that cannot be
 * said.
 */
bool fs_dir_path_leads_to(const char *path, int fd);

/* Gives what was just made to the directory's owner, where that is another user than root, who
 * runs this. By descriptor, or by name in the directory `fd`. */
int fs_dir_give(const struct fs_dir *dir, int fd);
int fs_dir_give_name(const struct fs_dir *dir, int fd, const char *name);

#endif
