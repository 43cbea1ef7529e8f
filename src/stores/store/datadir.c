#include "store/datadir.h"

#include "base/error.h"
#include "base/random.h"
#include "store/fs_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct datadir {
    char path[PATH_MAX - 64];
    struct fs_dir *dir;
    struct fs fs;
    int lock_fd;     /* -1: opened read-only, and there is no LOCK */
    int manifest_fd; /* descriptor of the MANIFEST last read or written; -1: not open */
};

static void path_of(const struct datadir *datadir, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", datadir->path, name);
}

/* ---- the lock ---- */

static long holder_of(int lock_fd)
{
    char text[32] = "";
    ssize_t got = pread(lock_fd, text, sizeof text - 1, 0);

    return got > 0 ? strtol(text, NULL, 10) : 0;
}

static int complain_of_use(const struct datadir *datadir, char *error, size_t error_bytes)
{
    char path[PATH_MAX];
    long holder = 0;
    int fd = datadir->lock_fd;

    path_of(datadir, "LOCK", path);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        holder = holder_of(fd);
    if (fd >= 0 && fd != datadir->lock_fd)
        close(fd);
    if (holder == (long)getpid())
        return error_result(-EBUSY, error, error_bytes,
                            "data directory '%s' is in use by process %ld, which is this one; "
                            "close it first, or use another directory",
                            datadir->path, holder);
    if (holder > 0)
        return error_result(
            -EBUSY, error, error_bytes,
            "data directory '%s' is in use by process %ld; stop that process first, or "
            "use another directory",
            datadir->path, holder);
    return error_result(-EBUSY, error, error_bytes,
                        "data directory '%s' is in use by another process; stop that process "
                        "first, or use another directory",
                        datadir->path);
}

/* Rejects a LOCK that may be a link to a file that would be overwritten. */
static int refuse_odd_lock(const struct datadir *datadir, const char *path, char *error,
                           size_t error_bytes)
{
    struct stat about;

    if (fstat(datadir->lock_fd, &about) < 0)
        return error_result(-errno, error, error_bytes, "cannot open '%s': %s", path,
                            strerror(errno));
    if (!S_ISREG(about.st_mode) || about.st_nlink > 1)
        return error_result(
            -EPERM, error, error_bytes,
            "'%s' is a hard link or not a regular file; remove it (nothing was changed)", path);
    return 0;
}

/* Locks LOCK. `existing`: creates and writes nothing, and shares the lock with other readers. */
static int take_lock(struct datadir *datadir, bool existing, char *error, size_t error_bytes)
{
    const int flags = existing ? O_RDONLY : O_RDWR | O_CREAT;
    char path[PATH_MAX], pid[32];
    int len, result;

    path_of(datadir, "LOCK", path);
    result = datadir->fs.ops->open(datadir->fs.ctx, path, flags | O_NOFOLLOW | O_NONBLOCK, 0600);
    datadir->lock_fd = result < 0 ? -1 : result;
    if (result == -ELOOP)
        return error_result(result, error, error_bytes,
                            "'%s' is a symbolic link; remove it (nothing was changed)", path);
    if (existing && result == -ENOENT)
        return 0;
    if (result < 0)
        return error_result(result, error, error_bytes, "cannot open '%s': %s", path,
                            strerror(-result));
    result = refuse_odd_lock(datadir, path, error, error_bytes);
    if (result < 0)
        return result;
    if (flock(datadir->lock_fd, (existing ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return complain_of_use(datadir, error, error_bytes);
        return error_result(-errno, error, error_bytes, "cannot lock '%s': %s", path,
                            strerror(errno));
    }
    if (existing)
        return 0;
    len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    result = datadir->fs.ops->truncate(datadir->fs.ctx, datadir->lock_fd, 0);
    if (result == 0)
        result = fs_pwrite_whole(&datadir->fs, datadir->lock_fd, pid, (size_t)len, 0);
    if (result < 0)
        return error_result(result, error, error_bytes, "cannot write '%s': %s", path,
                            strerror(-result));
    return 0;
}

/* ---- the manifest ---- */

static void set_manifest_fd(struct datadir *datadir, int fd)
{
    if (datadir->manifest_fd >= 0)
        close(datadir->manifest_fd);
    datadir->manifest_fd = fd;
}

/* Reads a manifest and sets *fd to its file. Returns -ENOENT without an error message if it does
 * not exist. */
static int read_text(const struct datadir *datadir, const char *name, int *fd,
                     struct datadir_manifest *out, char *error, size_t error_bytes)
{
    char path[PATH_MAX], text[MANIFEST_BYTES_MAX];
    ssize_t got;
    int result;

    path_of(datadir, name, path);
    result = datadir->fs.ops->open(datadir->fs.ctx, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (result == -ENOENT)
        return -ENOENT;
    if (result == -ELOOP)
        return error_result(
            result, error, error_bytes,
            "'%s' is a symbolic link; replace it with the file itself (nothing was changed)", path);
    if (result < 0)
        return error_result(result, error, error_bytes, "cannot open '%s': %s", path,
                            strerror(-result));
    *fd = result;
    got = fs_pread_some(&datadir->fs, *fd, true, text, sizeof text, 0);
    if (got < 0)
        return error_result((int)got, error, error_bytes, "cannot read '%s': %s", path,
                            strerror((int)-got));
    result = manifest_parse(slice_make(text, (size_t)got), out);
    if (result == -EPROTONOSUPPORT)
        return error_result(result, error, error_bytes,
                            "data directory '%s' has format %u and this version reads up to %d; "
                            "use the version that wrote it, or a newer one",
                            datadir->path, out->format, DATADIR_FORMAT);
    if (result == 0)
        return 0;
    return error_result(
        -EBADMSG, error, error_bytes,
        "'%s' is not a manifest or is damaged; restore it from a backup (nothing was "
        "changed)",
        path);
}

static bool is_incomplete(const struct datadir *datadir)
{
    return faccessat(fs_dir_fd(datadir->dir), DATADIR_INCOMPLETE, F_OK, 0) == 0;
}

/* Reads the copy of the manifest. Returns false if it is missing or damaged. */
static bool read_copy(const struct datadir *datadir, struct datadir_manifest *out)
{
    char ignored[256];
    int fd = -1;
    bool is_good =
        read_text(datadir, DATADIR_MANIFEST_COPY, &fd, out, ignored, sizeof ignored) == 0;

    if (fd >= 0)
        close(fd);
    return is_good;
}

/* Notes whether the copy of an intact manifest is missing or belongs to another one. Clocks may
 * differ after a crash between the two. */
static void check_copy(const struct datadir *datadir, struct datadir_manifest *manifest)
{
    struct datadir_manifest copy = {0};

    if (!manifest->is_opened)
        return;
    if (!read_copy(datadir, &copy))
        manifest->copy_fault = "is missing or damaged";
    else if (copy.shards != manifest->shards || copy.hash_seed != manifest->hash_seed ||
             strcmp(copy.name, manifest->name) != 0)
        manifest->copy_fault = "is not a copy of this MANIFEST";
}

/* Reads the manifest, or its copy if it is missing or damaged. A backup that was not completed is
 * not opened by the copy. Returns -ENOENT without an error message if neither exists. */
static int read_manifest(struct datadir *datadir, struct datadir_manifest *out, char *error,
                         size_t error_bytes)
{
    struct datadir_manifest copy = {0};
    int result = read_text(datadir, "MANIFEST", &datadir->manifest_fd, out, error, error_bytes);

    if (result == 0)
        check_copy(datadir, out);
    if ((result != -ENOENT && result != -EBADMSG) || is_incomplete(datadir) ||
        !read_copy(datadir, &copy))
        return result;
    *out = copy;
    out->fault = result == -ENOENT ? "is missing" : "is damaged";
    if (error_bytes)
        *error = '\0';
    return 0;
}

/* Writes a new manifest. *is_named: it has replaced the MANIFEST, although syncing the directory
 * may have failed. */
static int write_fresh(struct datadir *datadir, int fd, const char *fresh, const char *path,
                       struct slice text, bool *is_named)
{
    const struct fs *fs = &datadir->fs;
    int result = fs_pwrite_whole(fs, fd, text.at, text.len, 0);

    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, fd);
    if (result == 0)
        result = fs_give_name(fs, datadir->path, fresh, path, is_named);
    return result;
}

/* Returns false if another copy of MANIFEST was put in place of the one read or written last. */
static bool manifest_is_ours(const struct datadir *datadir)
{
    struct stat there, ours;

    return datadir->manifest_fd < 0 ||
           (fstatat(fs_dir_fd(datadir->dir), "MANIFEST", &there, 0) == 0 &&
            fstat(datadir->manifest_fd, &ours) == 0 && there.st_ino == ours.st_ino &&
            there.st_dev == ours.st_dev);
}

/* Replaces the copy. The sync of the directory that follows MANIFEST covers its name. */
static int write_copy(const struct datadir *datadir, struct slice text)
{
    const struct fs *fs = &datadir->fs;
    char path[PATH_MAX], fresh[PATH_MAX];
    int result, fd;

    path_of(datadir, DATADIR_MANIFEST_COPY, path);
    path_of(datadir, "MANIFEST.tmp", fresh);
    fd = fs->ops->open(fs->ctx, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    result = fs_pwrite_whole(fs, fd, text.at, text.len, 0);
    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, fd);
    close(fd);
    return result < 0 ? result : fs->ops->rename(fs->ctx, fresh, path);
}

int datadir_write(struct datadir *datadir, const struct datadir_manifest *manifest)
{
    struct datadir_manifest current = *manifest;
    size_t len;
    const struct fs *fs = &datadir->fs;
    char path[PATH_MAX], fresh[PATH_MAX], text[MANIFEST_BYTES_MAX];
    bool is_named = false;
    int result, fd;

    current.format = DATADIR_FORMAT;
    path_of(datadir, "MANIFEST", path);
    path_of(datadir, "MANIFEST.tmp", fresh);
    if (!manifest_is_ours(datadir))
        return -ESTALE;
    len = manifest_emit(&current, text);
    if (current.is_opened && (result = write_copy(datadir, slice_make(text, len))) < 0)
        return result;
    fd = fs->ops->open(fs->ctx, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    result = write_fresh(datadir, fd, fresh, path, slice_make(text, len), &is_named);
    if (is_named)
        set_manifest_fd(datadir, fd);
    else
        close(fd);
    return result;
}

/* ---- opening ---- */

/* Rejects an incomplete backup, whose manifest is written last. */
static int refuse_incomplete(const struct datadir *datadir, char *error, size_t error_bytes)
{
    if (!is_incomplete(datadir))
        return 0;
    return error_result(-EBADMSG, error, error_bytes,
                        "'%s' is a backup that was not completed; use another one (nothing was "
                        "changed)",
                        datadir->path);
}

/* ---- the shards ---- */

/* Sets the bit of a shard that has a directory. */
static void note_shard(void *ctx, const char *name)
{
    uint64_t *there = ctx;
    char is_called[16];

    for (uint32_t i = 0; i < DATADIR_SHARDS_MAX; i++) {
        snprintf(is_called, sizeof is_called, "shard-%02u", i);
        if (strcmp(name, is_called) == 0)
            *there |= UINT64_C(1) << i;
    }
}

static int list_shards(const struct datadir *datadir, uint64_t *there, char *error,
                       size_t error_bytes)
{
    int result;

    *there = 0;
    result = datadir->fs.ops->list(datadir->fs.ctx, datadir->path, note_shard, there);
    if (result < 0)
        return error_result(result, error, error_bytes, "cannot read data directory '%s': %s",
                            datadir->path, strerror(-result));
    return 0;
}

/* Compares the directories with the manifest. may_lack: missing directories are left to the
 * caller. */
static int check_shards(const struct datadir *datadir, const struct datadir_manifest *manifest,
                        bool may_lack, char *error, size_t error_bytes)
{
    uint64_t there;
    int result = list_shards(datadir, &there, error, error_bytes);

    for (uint32_t i = 0; result == 0 && i < DATADIR_SHARDS_MAX; i++) {
        const bool is_there = there >> i & 1;

        if (is_there && i >= manifest->shards)
            return error_result(-EBADMSG, error, error_bytes,
                                "data directory '%s' has a 'shard-%02u' and its MANIFEST has %u "
                                "shard%s; restore it from a backup (nothing was changed)",
                                datadir->path, i, manifest->shards,
                                manifest->shards == 1 ? "" : "s");
        if (!is_there && i < manifest->shards && !may_lack)
            return error_result(-EBADMSG, error, error_bytes,
                                "data directory '%s' lacks 'shard-%02u', and its MANIFEST has %u "
                                "shard%s; put it back, or restore a backup (nothing was changed)",
                                datadir->path, i, manifest->shards,
                                manifest->shards == 1 ? "" : "s");
    }
    return result;
}

static void note_any(void *ctx, const char *name)
{
    (void)name;
    *(bool *)ctx = true;
}

/* Rejects shards without a manifest: the manifest was lost, and creating a new one would lose the
 * jobs. Empty directories are left by an interrupted start. More directories than `shards` are
 * rejected, because the next start would reject them as not matching the manifest. */
static int refuse_shards(const struct datadir *datadir, uint32_t shards, char *error,
                         size_t error_bytes)
{
    uint64_t there;
    int result = list_shards(datadir, &there, error, error_bytes);

    for (uint32_t i = 0; result == 0 && i < DATADIR_SHARDS_MAX; i++) {
        char path[PATH_MAX];
        bool has_files = false;

        if (!(there >> i & 1))
            continue;
        datadir_shard_path(datadir, i, path, sizeof path);
        result = datadir->fs.ops->list(datadir->fs.ctx, path, note_any, &has_files);
        if (result < 0)
            return error_result(result, error, error_bytes, "cannot read '%s': %s", path,
                                strerror(-result));
        if (has_files)
            return error_result(-EBADMSG, error, error_bytes,
                                "data directory '%s' has shards but no MANIFEST; restore it from a "
                                "backup (nothing was changed)",
                                datadir->path);
        if (i >= shards)
            return error_result(-EEXIST, error, error_bytes,
                                "'%s' is empty and was left by a first start with more shards; "
                                "remove it, or give the --shards of that start",
                                path);
    }
    return result;
}

/* Creates the directories of the shards durably, before a manifest refers to them. */
static int make_shards(const struct datadir *datadir, uint32_t shards)
{
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < shards; i++) {
        char path[PATH_MAX];

        datadir_shard_path(datadir, i, path, sizeof path);
        result = datadir->fs.ops->mkdir(datadir->fs.ctx, path, 0700);
    }
    return result < 0 ? result : datadir->fs.ops->fsync_dir(datadir->fs.ctx, datadir->path);
}

/* Writes the first manifest of a directory. */
static int begin_manifest(struct datadir *datadir, struct datadir_manifest *manifest, char *error,
                          size_t error_bytes)
{
    int result = make_shards(datadir, manifest->shards);

    manifest_draw_name(manifest);
    manifest->format = DATADIR_FORMAT;
    if (result == 0)
        result = datadir_write(datadir, manifest);
    if (result < 0)
        return error_result(result, error, error_bytes, "cannot write '%s/MANIFEST': %s",
                            datadir->path, strerror(-result));
    return 0;
}

static int make_manifest(struct datadir *datadir, uint32_t shards, struct datadir_manifest *out,
                         char *error, size_t error_bytes)
{
    struct datadir_manifest fresh = {
        .shards = shards ? shards : 1, .hash_seed = random_u64(), .is_new = true};
    int result = refuse_shards(datadir, fresh.shards, error, error_bytes);

    if (result == 0)
        result = begin_manifest(datadir, &fresh, error, error_bytes);
    if (result == 0)
        *out = fresh;
    return result;
}

static int make_dir(const struct datadir *datadir, char *error, size_t error_bytes)
{
    char parent[PATH_MAX];
    char *slash;
    int result = fs_posix.ops->mkdir(NULL, datadir->path, 0700);

    if (result < 0)
        return error_result(
            result, error, error_bytes,
            "cannot create data directory '%s': %s, name another directory or check its parent",
            datadir->path, strerror(-result));
    snprintf(parent, sizeof parent, "%s", datadir->path);
    slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, sizeof parent, ".");
    else
        slash[slash == parent] = '\0';
    /* A failure is ignored: the parent may not be readable for us. */
    (void)fs_posix.ops->fsync_dir(NULL, parent);
    return 0;
}

/* ---- the directory itself ---- */

struct sighting {
    bool has_ours;    /* a file of a data directory */
    char foreign[64]; /* the first other name, cut */
};

/* Hidden names and lost+found belong to file systems and tools. */
static void note_name(void *ctx, const char *name)
{
    static const char *const ours[] = {"LOCK", "MANIFEST", "MARKS", DATADIR_INCOMPLETE, "shard-"};
    struct sighting *sighting = ctx;

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strncmp(name, ours[i], strlen(ours[i])) == 0)
            sighting->has_ours = true;
    if (!sighting->has_ours && !sighting->foreign[0] && name[0] != '.' &&
        strcmp(name, "lost+found") != 0)
        snprintf(sighting->foreign, sizeof sighting->foreign, "%s", name);
}

int datadir_refuse_foreign(const char *path, char *error, size_t error_bytes)
{
    struct sighting sighting = {0};

    if (fs_posix.ops->list(NULL, path, note_name, &sighting) < 0 || sighting.has_ours ||
        !sighting.foreign[0])
        return 0;
    return error_result(-ENOTEMPTY, error, error_bytes,
                        "'%s' is not a data directory and not empty: it has '%s'; give an empty "
                        "directory, or the name of a new one",
                        path, sighting.foreign);
}

/* Rejects a directory that other users own or may write, since they could make jobs do anything.
 * Read access is harmless. */
static int refuse_owner(const struct datadir *datadir, char *error, size_t error_bytes)
{
    const uid_t me = geteuid();
    struct stat about;

    if (fstat(fs_dir_fd(datadir->dir), &about) < 0)
        return error_result(-errno, error, error_bytes, "cannot open data directory '%s': %s",
                            datadir->path, strerror(errno));
    if (about.st_uid != me && me != 0)
        return error_result(-EPERM, error, error_bytes,
                            "data directory '%s' belongs to user %ld and this process to user %ld; "
                            "run it as the owner, or use your own directory",
                            datadir->path, (long)about.st_uid, (long)me);
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return error_result(-EPERM, error, error_bytes,
                            "data directory '%s' can be written by others (mode %04o); run 'chmod "
                            "go-w' on it, or name a directory inside it, which is created",
                            datadir->path, (unsigned)about.st_mode & 07777);
    return 0;
}

/* Opens and locks the directory. From then on it stays the same directory, wherever the path
 * leads. */
static int hold_dir(struct datadir *datadir, bool existing, char *error, size_t error_bytes)
{
    int result = fs_dir_open(datadir->path, existing ? FS_DIR_SHARED : FS_DIR_ALONE, &datadir->dir);

    if (result == -EBUSY)
        return complain_of_use(datadir, error, error_bytes);
    if (result < 0)
        return error_result(result, error, error_bytes, "cannot open data directory '%s': %s",
                            datadir->path, strerror(-result));
    datadir->fs = (struct fs){.ops = fs_posix.ops, .ctx = datadir->dir};
    if (!existing && (result = refuse_owner(datadir, error, error_bytes)) < 0)
        return result;
    result = take_lock(datadir, existing, error, error_bytes);
    if (result < 0 || fs_dir_path_leads_to(datadir->path, fs_dir_fd(datadir->dir)))
        return result;
    return error_result(
        -errno, error, error_bytes, "cannot open data directory '%s': %s", datadir->path,
        errno == ESTALE ? "it was moved during the start; try again" : strerror(errno));
}

static int open_any(const char *path, bool existing, uint32_t shards, struct datadir **out,
                    struct datadir_manifest *manifest, char *error, size_t error_bytes)
{
    struct datadir *datadir = calloc(1, sizeof *datadir);
    struct datadir_manifest found = {0};
    size_t len = strlen(path);
    int result;

    if (!datadir)
        return error_result(-ENOMEM, error, error_bytes, "out of memory");
    datadir->lock_fd = datadir->manifest_fd = -1;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len == 0 || len >= sizeof datadir->path) {
        result = error_result(-ENAMETOOLONG, error, error_bytes,
                              "the path of the data directory must have 1 to %zu bytes",
                              sizeof datadir->path - 1);
        goto out;
    }
    memcpy(datadir->path, path, len);
    if (!existing && (result = make_dir(datadir, error, error_bytes)) < 0)
        goto out;
    if (!existing && (result = datadir_refuse_foreign(datadir->path, error, error_bytes)) < 0)
        goto out;
    if ((result = hold_dir(datadir, existing, error, error_bytes)) < 0)
        goto out;
    result = read_manifest(datadir, &found, error, error_bytes);
    if (result == -ENOENT && refuse_incomplete(datadir, error, error_bytes) < 0)
        result = -EBADMSG;
    if (result == -ENOENT && existing)
        result = error_result(-ENOENT, error, error_bytes,
                              "'%s' is not a data directory: it has no MANIFEST", datadir->path);
    else if (result == -ENOENT)
        result = make_manifest(datadir, shards, &found, error, error_bytes);
    if (result == 0 && shards && shards != found.shards)
        result = error_result(
            -EINVAL, error, error_bytes,
            "data directory '%s' was created with %u shard%s, not %u; their number cannot "
            "be changed: leave it out, or use another directory",
            datadir->path, found.shards, found.shards == 1 ? "" : "s", shards);
    if (result == 0 && !found.is_new)
        result = check_shards(datadir, &found, existing, error, error_bytes);
out:
    if (result < 0) {
        datadir_close(datadir);
        return result;
    }
    *out = datadir;
    *manifest = found;
    return 0;
}

int datadir_open(const char *path, uint32_t shards, struct datadir **out,
                 struct datadir_manifest *manifest, char *error, size_t error_bytes)
{
    if (shards > DATADIR_SHARDS_MAX)
        return error_result(-EINVAL, error, error_bytes, "too many shards: %u; at most %d", shards,
                            DATADIR_SHARDS_MAX);
    return open_any(path, false, shards, out, manifest, error, error_bytes);
}

int datadir_open_existing(const char *path, struct datadir **out, struct datadir_manifest *manifest,
                          char *error, size_t error_bytes)
{
    return open_any(path, true, 0, out, manifest, error, error_bytes);
}

const char *datadir_path(const struct datadir *datadir)
{
    return datadir->path;
}

void datadir_shard_path(const struct datadir *datadir, uint32_t shard, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s/shard-%02u", datadir->path, shard);
}

const struct fs *datadir_fs(const struct datadir *datadir)
{
    return &datadir->fs;
}

void datadir_leave(struct datadir *datadir)
{
    if (datadir->lock_fd < 0) /* datadir_leave was already called */
        return;
    close(datadir->lock_fd);
    datadir->lock_fd = -1;
    fs_dir_leave(datadir->dir);
}

void datadir_close(struct datadir *datadir)
{
    if (!datadir)
        return;
    set_manifest_fd(datadir, -1);
    if (datadir->lock_fd >= 0)
        close(datadir->lock_fd); /* releases the lock */
    fs_dir_close(datadir->dir);
    free(datadir);
}
