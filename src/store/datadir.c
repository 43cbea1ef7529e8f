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

enum { MANIFEST_BYTES_MAX = 4096 };

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

static int parse_number(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 ? 0 : -EINVAL;
}

/* One key=value line. Keys it does not know are a newer version's business, which `format` guards.
 */
static int parse_line(struct datadir_manifest *manifest, const char *key, const char *value,
                      unsigned *seen)
{
    uint64_t number = 0;
    int bad = 0;

    if (strcmp(key, "format") == 0) {
        bad = parse_number(value, &number) || number > UINT32_MAX;
        manifest->format = (uint32_t)number;
        *seen |= 1;
    } else if (strcmp(key, "shards") == 0) {
        bad = parse_number(value, &number) || number == 0 || number > DATADIR_SHARDS_MAX;
        manifest->shards = (uint32_t)number;
        *seen |= 2;
    } else if (strcmp(key, "hash_seed") == 0) {
        bad = parse_number(value, &manifest->hash_seed);
        *seen |= 4;
    } else if (strcmp(key, "boot_id") == 0) {
        bad = strlen(value) >= sizeof manifest->boot_id;
        if (!bad)
            memcpy(manifest->boot_id, value, strlen(value) + 1);
    } else if (strcmp(key, "boot_offset_ms") == 0) {
        char *end;

        manifest->boot_offset_ms = strtoll(value, &end, 10);
        bad = *value == '\0' || *end != '\0';
    } else if (strcmp(key, "skew_ms") == 0) {
        char *end;

        manifest->skew_ms = strtoll(value, &end, 10);
        bad = *value == '\0' || *end != '\0';
    }
    return bad ? -EBADMSG : 0;
}

/* The text is cut up. -EBADMSG: not a manifest. */
static int parse_manifest(char *text, struct datadir_manifest *out)
{
    struct datadir_manifest manifest = {0};
    unsigned seen = 0;
    char *rest = text, *line, *value;

    while ((line = strsep(&rest, "\n"))) {
        if (*line == '\0' || *line == '#')
            continue;
        value = strchr(line, '=');
        if (!value)
            return -EBADMSG;
        *value++ = '\0';
        if (parse_line(&manifest, line, value, &seen) < 0)
            return -EBADMSG;
        if (seen & 1 && manifest.format > DATADIR_FORMAT)
            break;
    }
    if (!(seen & 1) || manifest.format == 0)
        return -EBADMSG;
    if (manifest.format <= DATADIR_FORMAT && seen != 7)
        return -EBADMSG;
    *out = manifest;
    return 0;
}

/* -ENOENT without words: there is none. */
static int read_manifest(const struct datadir *datadir, struct datadir_manifest *out, char *error,
                         size_t error_bytes)
{
    char path[PATH_MAX], text[MANIFEST_BYTES_MAX + 1];
    ssize_t got;
    int fd;

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
    if (got <= MANIFEST_BYTES_MAX) {
        text[got] = '\0';
        if (strlen(text) == (size_t)got && parse_manifest(text, out) == 0) {
            if (out->format > DATADIR_FORMAT)
                return complain(
                    error, error_bytes, -EPROTONOSUPPORT,
                    "data directory '%s' has format %u and this version reads up to %d; "
                    "use the version that wrote it, or a newer one",
                    datadir->path, out->format, DATADIR_FORMAT);
            return 0;
        }
    }
    return complain(error, error_bytes, -EBADMSG,
                    "'%s' is not a manifest or is damaged; restore it from a backup (nothing was "
                    "changed)",
                    path);
}

int datadir_write(struct datadir *datadir, const struct datadir_manifest *manifest)
{
    char path[PATH_MAX], fresh[PATH_MAX], text[MANIFEST_BYTES_MAX];
    int result, fd;
    int len = snprintf(text, sizeof text,
                       "# written by tarry; do not edit\n"
                       "format=%d\nshards=%u\nhash_seed=0x%016" PRIx64 "\nboot_id=%s\n"
                       "boot_offset_ms=%" PRId64 "\nskew_ms=%" PRId64 "\n",
                       DATADIR_FORMAT, manifest->shards, manifest->hash_seed, manifest->boot_id,
                       manifest->boot_offset_ms, manifest->skew_ms);

    path_of(datadir, "MANIFEST", path);
    path_of(datadir, "MANIFEST.tmp", fresh);
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    errno = EIO;
    result = pwrite(fd, text, (size_t)len, 0) == len && fsync(fd) == 0 ? 0 : -errno;
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

/* Files of a log or shard without a manifest: somebody lost it. Making a new one would lose the
 * jobs. */
static void note_shard(void *ctx, const char *name)
{
    if (strncmp(name, "shard-", 6) == 0)
        *(bool *)ctx = true;
}

static int make_manifest(struct datadir *datadir, uint32_t shards, struct datadir_manifest *out,
                         char *error, size_t error_bytes)
{
    struct datadir_manifest fresh = {.format = DATADIR_FORMAT,
                                     .shards = shards ? shards : 1,
                                     .hash_seed = random_u64(),
                                     .is_new = true};
    bool has_shards = false;
    int result = fs_posix.ops->list(NULL, datadir->path, note_shard, &has_shards);

    if (has_shards)
        return complain(error, error_bytes, -EBADMSG,
                        "data directory '%s' has shards but no MANIFEST; restore it from a backup "
                        "(nothing was changed)",
                        datadir->path);
    if (result == 0)
        result = datadir_write(datadir, &fresh);
    if (result < 0)
        return complain(error, error_bytes, result, "cannot write '%s/MANIFEST': %s", datadir->path,
                        strerror(-result));
    *out = fresh;
    return 0;
}

static int raise_format(struct datadir *datadir, struct datadir_manifest *manifest, char *error,
                        size_t error_bytes)
{
    int result = datadir_write(datadir, manifest);

    if (result < 0)
        return complain(error, error_bytes, result, "cannot write '%s/MANIFEST': %s", datadir->path,
                        strerror(-result));
    manifest->format = DATADIR_FORMAT;
    return 0;
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
                     "data directory '%s' was made with %u shards, not %u; their number cannot "
                     "be changed: leave it out, or use another directory",
                     datadir->path, found.shards, shards);
    if (result == 0 && !existing && found.format < DATADIR_FORMAT)
        result = raise_format(datadir, &found, error, error_bytes);
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
