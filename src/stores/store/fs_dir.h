/*
 * fs_dir: a directory that is held open by descriptor, together with the directories below it.
 *
 * A full path may lead to another directory than a moment before, because the directory was renamed
 * or something was mounted over it. So a path is only a name here: each directory is opened once,
 * the first by its path and the others relative to their parent, and files are then accessed
 * relative to that descriptor. A function reports whether the path still leads there.
 *
 * Each directory is locked (flock on the directory itself), so that removing a file does not let a
 * second server in, and a part that was moved elsewhere is still locked. File systems that cannot
 * lock directories are tolerated silently.
 *
 * If root runs this on another user's directory, created files belong to that user.
 *
 * Any thread, except open and close. Errors: negative errno; -EBUSY if another process holds the
 * lock.
 */
#ifndef TARRY_STORE_FS_DIR_H
#define TARRY_STORE_FS_DIR_H

#include <stdbool.h>
#include <sys/types.h>

struct fs_dir;

enum fs_dir_lock { FS_DIR_SHARED = 1, FS_DIR_ALONE };

/* Opens an existing directory. */
int fs_dir_open(const char *path, enum fs_dir_lock lock, struct fs_dir **out);
/* Closes the directory and releases the locks. */
void fs_dir_close(struct fs_dir *dir);
/* Closes, once, the locks that a forked child has inherited; the parent keeps them. */
void fs_dir_leave(struct fs_dir *dir);

/* Returns the directory's own descriptor. */
int fs_dir_fd(const struct fs_dir *dir);

/* Returns the descriptor that holds `path`, which is the directory's own path or that of a
 * directory below it. The fs_dir owns it. */
int fs_dir_hold(struct fs_dir *dir, const char *path);

/* Returns the descriptor of the directory that contains the last part of `path`; *name is that
 * part. */
int fs_dir_hold_parent(struct fs_dir *dir, const char *path, const char **name);

/*
 * Syncs of directories. A held directory counts the changes of its names, so that a sync without a change since the last
 * one is skipped. The first sync is never skipped, unless the directory was made by this process: an
 * earlier one may have died before its sync.
 */

/* Notes a change of a name in the held directory `fd`, after the change. */
void fs_dir_note_change(struct fs_dir *dir, int fd);
/* Notes that the directory `path` was just made, so it has no names yet. */
void fs_dir_note_made(struct fs_dir *dir, const char *path);
int fs_dir_sync(struct fs_dir *dir, const char *path);

/* Returns whether `path` leads to the file that is open as `fd`. If false, errno is ESTALE, or the
 * reason why this is unknown. */
bool fs_dir_path_leads_to(const char *path, int fd);

/* Gives a new file to the directory's owner if root runs this and the owner is another user. By
 * descriptor, or by name in the directory `fd`. */
int fs_dir_give(const struct fs_dir *dir, int fd);
int fs_dir_give_name(const struct fs_dir *dir, int fd, const char *name);

#endif
