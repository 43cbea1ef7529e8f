#include "store/datadir.h"

#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct datadir {
    char path[PATH_MAX - 64];
    int lock_fd; /* -1: a directory opened for reading that never had a LOCK */
};

static int complain(char *error, size_t error_bytes, int result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int complain(char *error, size_t error_bytes, int result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return result;
}

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

/* `existing`: make nothing, write nothing, share with others that only read. */
static int take_lock(struct datadir *datadir, bool existing, char *error, size_t error_bytes)
{
    char path[PATH_MAX], pid[32];
    int len, fault;

    path_of(datadir, "LOCK", path);
    datadir->lock_fd = open(path, O_CLOEXEC | (existing ? O_RDONLY : O_RDWR | O_CREAT), 0600);
    if (datadir->lock_fd < 0) {
        if (existing && errno == ENOENT)
            return 0;
        return complain(error, error_bytes, -errno, "cannot open '%s': %s", path, strerror(errno));
    }
    if (flock(datadir->lock_fd, (existing ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return complain(error, error_bytes, -errno, "cannot lock '%s': %s", path,
                            strerror(errno));
        return complain(error, error_bytes, -EBUSY,
                        "data directory '%s' is in use by process %ld; stop that server first, or "
                        "use another directory",
                        datadir->path, holder_of(datadir->lock_fd));
    }
    if (existing)
        return 0;
    len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(datadir->lock_fd, 0) < 0 ||
        pwrite(datadir->lock_fd, pid, (size_t)len, 0) != len) {
        fault = errno ? errno : EIO;
        return complain(error, error_bytes, -fault, "cannot write '%s': %s", path, strerror(fault));
    }
    return 0;
}

/* ---- the manifest ---- */

/* -ENOENT without words: there is none. */
static int read_manifest(const struct datadir *datadir, struct datadir_manifest *out, char *error,
                         size_t error_bytes)
{
    char path[PATH_MAX], text[MANIFEST_BYTES_MAX];
    ssize_t got;
    int fd, result;

    path_of(datadir, "MANIFEST", path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0)
        return complain(error, error_bytes, -errno, "cannot open '%s': %s", path, strerror(errno));
    got = pread(fd, text, sizeof text, 0);
    if (got < 0)
        got = -errno;
    close(fd);
    if (got < 0)
        return complain(error, error_bytes, (int)got, "cannot read '%s': %s", path,
                        strerror((int)-got));
    result = manifest_parse(slice_make(text, (size_t)got), out);
    if (result == -EPROTONOSUPPORT)
        return complain(error, error_bytes, result,
                        "data directory '%s' has format %u and this version reads up to %d; "
                        "use the version that wrote it, or a newer one",
                        datadir->path, out->format, DATADIR_FORMAT);
    if (result == 0)
        return 0;
    return complain(error, error_bytes, -EBADMSG,
                    "'%s' is not a manifest or is damaged; restore it from a backup (nothing was "
                    "changed)",
                    path);
}

int datadir_write(struct datadir *datadir, const struct datadir_manifest *manifest)
{
    struct datadir_manifest current = *manifest;
    char path[PATH_MAX], fresh[PATH_MAX], text[MANIFEST_BYTES_MAX];
    int result, fd;
    size_t len;

    current.format = DATADIR_FORMAT;
    len = manifest_emit(&current, text);
    path_of(datadir, "MANIFEST", path);
    path_of(datadir, "MANIFEST.tmp", fresh);
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    errno = EIO;
    result = pwrite(fd, text, len, 0) == (ssize_t)len && fsync(fd) == 0 ? 0 : -errno;
    close(fd);
    if (result == 0)
        result = fs_give_name(&fs_posix, datadir->path, fresh, path, NULL);
    return result;
}

/* ---- opening ---- */

/* A backup gets its manifest last. */
static int refuse_incomplete(const struct datadir *datadir, char *error, size_t error_bytes)
{
    char path[PATH_MAX];

    path_of(datadir, DATADIR_INCOMPLETE, path);
    if (access(path, F_OK) < 0)
        return 0;
    return complain(error, error_bytes, -EBADMSG,
                    "'%s' is a backup that was not completed; use another one (nothing was "
                    "changed)",
                    datadir->path);
}

/* ---- the shards ---- */

/* Which shards have a directory: a bit each. */
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
    result = fs_posix.ops->list(NULL, datadir->path, note_shard, there);
    if (result < 0)
        return complain(error, error_bytes, result, "cannot read data directory '%s': %s",
                        datadir->path, strerror(-result));
    return 0;
}

/* Before format 4 a shard's directory was made after the manifest: some are missing where the first
 * start was not completed. */
static int check_shards(const struct datadir *datadir, const struct datadir_manifest *manifest,
                        char *error, size_t error_bytes)
{
    const bool may_lack = manifest->format < DATADIR_FORMAT_CHECKED && !*manifest->boot_id;
    uint64_t there;
    int result = list_shards(datadir, &there, error, error_bytes);

    for (uint32_t i = 0; result == 0 && i < DATADIR_SHARDS_MAX; i++) {
        const bool is_there = there >> i & 1;

        if (is_there && i >= manifest->shards)
            return complain(error, error_bytes, -EBADMSG,
                            "data directory '%s' has a 'shard-%02u' and its MANIFEST speaks of %u "
                            "shard%s; restore it from a backup (nothing was changed)",
                            datadir->path, i, manifest->shards, manifest->shards == 1 ? "" : "s");
        if (!is_there && i < manifest->shards && !may_lack)
            return complain(error, error_bytes, -EBADMSG,
                            "data directory '%s' lacks 'shard-%02u', and its MANIFEST speaks of %u "
                            "shard%s; put it back, or restore a backup (nothing was changed)",
                            datadir->path, i, manifest->shards, manifest->shards == 1 ? "" : "s");
    }
    return result;
}

static void note_any(void *ctx, const char *name)
{
    (void)name;
    *(bool *)ctx = true;
}

/* Shards without a manifest: somebody lost it, and making a new one would lose the jobs. Empty ones
 * are what a start leaves that was cut short. */
static int refuse_shards(const struct datadir *datadir, char *error, size_t error_bytes)
{
    uint64_t there;
    int result = list_shards(datadir, &there, error, error_bytes);

    for (uint32_t i = 0; result == 0 && i < DATADIR_SHARDS_MAX; i++) {
        char path[PATH_MAX];
        bool has_files = false;

        if (!(there >> i & 1))
            continue;
        datadir_shard_path(datadir, i, path, sizeof path);
        result = fs_posix.ops->list(NULL, path, note_any, &has_files);
        if (result < 0)
            return complain(error, error_bytes, result, "cannot read '%s': %s", path,
                            strerror(-result));
        if (has_files)
            return complain(error, error_bytes, -EBADMSG,
                            "data directory '%s' has shards but no MANIFEST; restore it from a "
                            "backup (nothing was changed)",
                            datadir->path);
    }
    return result;
}

/* Durable before a manifest speaks of them. */
static int make_shards(const struct datadir *datadir, uint32_t shards)
{
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < shards; i++) {
        char path[PATH_MAX];

        datadir_shard_path(datadir, i, path, sizeof path);
        result = fs_posix.ops->mkdir(NULL, path, 0700);
    }
    return result < 0 ? result : fs_posix.ops->fsync_dir(NULL, datadir->path);
}

/* Writes the first manifest of a directory, or the first of this format. */
static int begin_manifest(struct datadir *datadir, struct datadir_manifest *manifest, char *error,
                          size_t error_bytes)
{
    int result = make_shards(datadir, manifest->shards);

    manifest_draw_name(manifest);
    manifest->format = DATADIR_FORMAT;
    if (result == 0)
        result = datadir_write(datadir, manifest);
    if (result < 0)
        return complain(error, error_bytes, result, "cannot write '%s/MANIFEST': %s", datadir->path,
                        strerror(-result));
    return 0;
}

static int make_manifest(struct datadir *datadir, uint32_t shards, struct datadir_manifest *out,
                         char *error, size_t error_bytes)
{
    struct datadir_manifest fresh = {
        .shards = shards ? shards : 1, .hash_seed = random_u64(), .is_new = true};
    int result = refuse_shards(datadir, error, error_bytes);

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
        return complain(error, error_bytes, result, "cannot make data directory '%s': %s",
                        datadir->path, strerror(-result));
    snprintf(parent, sizeof parent, "%s", datadir->path);
    slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, sizeof parent, ".");
    else
        slash[slash == parent] = '\0';
    /* Not ours to insist on: the parent may be readable by others only. */
    (void)fs_posix.ops->fsync_dir(NULL, parent);
    return 0;
}

static int open_any(const char *path, bool existing, uint32_t shards, struct datadir **out,
                    struct datadir_manifest *manifest, char *error, size_t error_bytes)
{
    struct datadir *datadir = calloc(1, sizeof *datadir);
    struct datadir_manifest found = {0};
    size_t len = strlen(path);
    int result;

    if (!datadir)
        return complain(error, error_bytes, -ENOMEM, "out of memory");
    datadir->lock_fd = -1;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len == 0 || len >= sizeof datadir->path) {
        result = complain(error, error_bytes, -ENAMETOOLONG,
                          "the path of the data directory must have 1 to %zu bytes",
                          sizeof datadir->path - 1);
        goto out;
    }
    memcpy(datadir->path, path, len);
    if (!existing && (result = make_dir(datadir, error, error_bytes)) < 0)
        goto out;
    if ((result = take_lock(datadir, existing, error, error_bytes)) < 0)
        goto out;
    result = read_manifest(datadir, &found, error, error_bytes);
    if (result == -ENOENT && refuse_incomplete(datadir, error, error_bytes) < 0)
        result = -EBADMSG;
    if (result == -ENOENT && existing)
        result = complain(error, error_bytes, -ENOENT,
                          "'%s' is not a data directory: it has no MANIFEST", datadir->path);
    else if (result == -ENOENT)
        result = make_manifest(datadir, shards, &found, error, error_bytes);
    if (result == 0 && shards && shards != found.shards)
        result =
            complain(error, error_bytes, -EINVAL,
                     "data directory '%s' was made with %u shard%s, not %u; their number cannot "
                     "be changed: leave it out, or use another directory",
                     datadir->path, found.shards, found.shards == 1 ? "" : "s", shards);
    if (result == 0 && !found.is_new)
        result = check_shards(datadir, &found, error, error_bytes);
    if (result == 0 && !existing && found.format < DATADIR_FORMAT)
        result = begin_manifest(datadir, &found, error, error_bytes);
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
        return complain(error, error_bytes, -EINVAL, "too many shards: %u; at most %d", shards,
                        DATADIR_SHARDS_MAX);
    return open_any(path, false, shards, out, manifest, error, error_bytes);
}

int datadir_open_existing(const char *path, struct datadir **out, struct datadir_manifest *manifest,
                          char *error, size_t error_bytes)
{
    return open_any(path, true, 0, out, manifest, error, error_bytes);
}

void datadir_shard_path(const struct datadir *datadir, uint32_t shard, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s/shard-%02u", datadir->path, shard);
}

void datadir_close(struct datadir *datadir)
{
    if (!datadir)
        return;
    if (datadir->lock_fd >= 0)
        close(datadir->lock_fd); /* gives the lock back */
    free(datadir);
}
