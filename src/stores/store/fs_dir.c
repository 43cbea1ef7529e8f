#include "store/fs_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct held {
    struct held *next;
    int fd;
    uint64_t changed,
        synced;  /* changes of its names, and those before its last sync; under the mutex */
    char path[]; /* the path as given by callers */
};

struct fs_dir {
    enum fs_dir_lock lock;
    bool gives; /* root runs this, and `owner` is another user */
    uid_t owner;
    gid_t group;
    pthread_mutex_t mutex;
    struct held *root;
    struct held *below; /* under the mutex; entries are removed only at closing */
};

/* ---- holding a directory ---- */

/* Returns whether locking directories is unsupported: network file systems may lock only files, or
 * only descriptors open for writing. */
static bool is_without_locks(int error)
{
    return error == EBADF || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

static int lock_one(const struct fs_dir *dir, int fd)
{
    const int how = dir->lock == FS_DIR_ALONE ? LOCK_EX : LOCK_SH;

    if (flock(fd, how | LOCK_NB) == 0 || is_without_locks(errno))
        return 0;
    return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

static int open_one(int at, const char *name)
{
    int fd;

    do
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* Opens and locks `name` in the directory `at`, to be found by `path`. */
static int hold_one(const struct fs_dir *dir, int at, const char *name, const char *path,
                    size_t path_bytes, struct held **out)
{
    struct held *held = malloc(sizeof *held + path_bytes + 1);
    int result;

    if (!held)
        return -ENOMEM;
    result = held->fd = open_one(at, name);
    if (result >= 0)
        result = lock_one(dir, held->fd);
    if (result < 0) {
        if (held->fd >= 0)
            close(held->fd);
        free(held);
        return result;
    }
    held->changed = 1; /* unknown ones */
    held->synced = 0;
    memcpy(held->path, path, path_bytes);
    held->path[path_bytes] = '\0';
    *out = held;
    return 0;
}

static void let_go(struct held *held)
{
    close(held->fd);
    free(held);
}

/* ---- by path ---- */

static bool is_called(const struct held *held, const char *path, size_t path_bytes)
{
    return strncmp(held->path, path, path_bytes) == 0 && held->path[path_bytes] == '\0';
}

/* Finds a held directory, and opens it if needed. Call it under the mutex. */
static int find(struct fs_dir *dir, const char *path, size_t path_bytes, struct held **out)
{
    const char *slash = memrchr(path, '/', path_bytes);
    struct held *parent;
    char name[NAME_MAX + 1];
    size_t name_bytes;
    int result;

    *out = dir->root;
    if (is_called(dir->root, path, path_bytes))
        return 0;
    for (*out = dir->below; *out; *out = (*out)->next)
        if (is_called(*out, path, path_bytes))
            return 0;
    if (!slash || slash == path)
        return -EXDEV; /* not below the directory */
    result = find(dir, path, (size_t)(slash - path), &parent);
    if (result < 0)
        return result;
    name_bytes = path_bytes - (size_t)(slash + 1 - path);
    if (name_bytes >= sizeof name)
        return -ENAMETOOLONG;
    memcpy(name, slash + 1, name_bytes);
    name[name_bytes] = '\0';
    result = hold_one(dir, parent->fd, name, path, path_bytes, out);
    if (result < 0)
        return result;
    (*out)->next = dir->below;
    dir->below = *out;
    return 0;
}

static int find_locked(struct fs_dir *dir, const char *path, size_t path_bytes)
{
    struct held *held;
    int result;

    pthread_mutex_lock(&dir->mutex);
    result = find(dir, path, path_bytes, &held);
    pthread_mutex_unlock(&dir->mutex);
    return result < 0 ? result : held->fd;
}

int fs_dir_hold(struct fs_dir *dir, const char *path)
{
    return find_locked(dir, path, strlen(path));
}

int fs_dir_hold_parent(struct fs_dir *dir, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return -EXDEV;
    *name = slash + 1;
    return find_locked(dir, path, (size_t)(slash - path));
}

/* ---- syncs ---- */

void fs_dir_note_change(struct fs_dir *dir, int fd)
{
    struct held *held = dir->root;

    pthread_mutex_lock(&dir->mutex);
    if (held->fd != fd)
        for (held = dir->below; held && held->fd != fd; held = held->next)
            ;
    if (held)
        held->changed++;
    pthread_mutex_unlock(&dir->mutex);
}

void fs_dir_note_made(struct fs_dir *dir, const char *path)
{
    struct held *held;

    pthread_mutex_lock(&dir->mutex);
    if (find(dir, path, strlen(path), &held) == 0 && held->synced == 0)
        held->synced = 1;
    pthread_mutex_unlock(&dir->mutex);
}

/* A sync that is still in progress in another thread does not count. */
int fs_dir_sync(struct fs_dir *dir, const char *path)
{
    struct held *held;
    uint64_t changed = 0;
    bool is_synced = false;
    int result;

    pthread_mutex_lock(&dir->mutex);
    result = find(dir, path, strlen(path), &held);
    if (result == 0) {
        changed = held->changed;
        is_synced = held->synced == changed;
    }
    pthread_mutex_unlock(&dir->mutex);
    if (result < 0 || is_synced)
        return result;
    if (fsync(held->fd) < 0)
        return -errno;
    pthread_mutex_lock(&dir->mutex);
    if (held->synced < changed)
        held->synced = changed;
    pthread_mutex_unlock(&dir->mutex);
    return 0;
}

bool fs_dir_path_leads_to(const char *path, int fd)
{
    struct stat there, here;

    if (stat(path, &there) < 0 || fstat(fd, &here) < 0)
        return false;
    errno = ESTALE;
    return there.st_ino == here.st_ino && there.st_dev == here.st_dev;
}

/* ---- ownership ---- */

int fs_dir_give(const struct fs_dir *dir, int fd)
{
    return dir->gives && fchown(fd, dir->owner, dir->group) < 0 ? -errno : 0;
}

int fs_dir_give_name(const struct fs_dir *dir, int fd, const char *name)
{
    return dir->gives && fchownat(fd, name, dir->owner, dir->group, AT_SYMLINK_NOFOLLOW) < 0
               ? -errno
               : 0;
}

/* ---- open, close ---- */

int fs_dir_open(const char *path, enum fs_dir_lock lock, struct fs_dir **out)
{
    struct fs_dir *dir = calloc(1, sizeof *dir);
    struct stat about;
    int result;

    if (!dir)
        return -ENOMEM;
    pthread_mutex_init(&dir->mutex, NULL);
    dir->lock = lock;
    result = hold_one(dir, AT_FDCWD, path, path, strlen(path), &dir->root);
    if (result == 0 && fstat(dir->root->fd, &about) < 0)
        result = -errno;
    if (result < 0) {
        fs_dir_close(dir);
        return result;
    }
    dir->owner = about.st_uid;
    dir->group = about.st_gid;
    dir->gives = geteuid() == 0 && about.st_uid != 0;
    *out = dir;
    return 0;
}

void fs_dir_close(struct fs_dir *dir)
{
    if (!dir)
        return;
    while (dir->below) {
        struct held *held = dir->below;

        dir->below = held->next;
        let_go(held);
    }
    if (dir->root)
        let_go(dir->root);
    pthread_mutex_destroy(&dir->mutex);
    free(dir);
}

/* Does not lock the mutex, since a thread that held it exists only in the parent. */
void fs_dir_leave(struct fs_dir *dir)
{
    for (struct held *held = dir->below; held; held = held->next)
        close(held->fd);
    close(dir->root->fd);
}

int fs_dir_fd(const struct fs_dir *dir)
{
    return dir->root->fd;
}
