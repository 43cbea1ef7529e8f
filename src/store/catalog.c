#include "store/catalog.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Digits as in the names of runs; more where they are needed, so that none is ever too long to be
 * told apart. */
enum { DIGITS = 8, DIGITS_MAX = 20, FOUND_MAX = 64 };
#define CATALOG_BYTES_MAX ((size_t)1 << 33) /* a bit for each of 2^32 slots, 16 times */

static const char PREFIX[] = "CATALOG-";
static const char FRESH[] = "CATALOG.tmp";

void catalog_file_name(uint64_t generation, char out[32])
{
    snprintf(out, 32, "%s%0*" PRIu64, PREFIX, DIGITS, generation);
}

uint64_t catalog_file_generation(const char *name)
{
    uint64_t generation;
    char again[32];

    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0 || strlen(name) >= sizeof again)
        return 0;
    generation = strtoull(name + sizeof PREFIX - 1, NULL, 10);
    catalog_file_name(generation, again);
    return strcmp(name, again) == 0 ? generation : 0;
}

static bool path_of(const char *dir, const char *name, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

/* ---- what is there ---- */

/* The newest so many of those below `below`. */
struct found {
    uint64_t generations[FOUND_MAX];
    size_t count;
    uint64_t below;
};

static void note(void *ctx, const char *name)
{
    struct found *found = ctx;
    uint64_t generation = catalog_file_generation(name);
    size_t at = 0;

    if (generation == 0 || generation >= found->below)
        return;
    while (at < found->count && found->generations[at] > generation)
        at++;
    if (at == FOUND_MAX)
        return;
    if (found->count < FOUND_MAX)
        found->count++;
    memmove(&found->generations[at + 1], &found->generations[at],
            (found->count - at - 1) * sizeof found->generations[0]);
    found->generations[at] = generation;
}

static int look(const struct fs *fs, const char *dir, uint64_t below, struct found *out)
{
    *out = (struct found){.below = below};
    return fs->ops->list(fs->ctx, dir, note, out);
}

/* ---- reading ---- */

static int read_all(const struct fs *fs, int fd, struct buffer *into)
{
    int64_t size = fs->ops->size(fs->ctx, fd);
    char *room;
    int result;

    if (size < 0)
        return (int)size;
    if ((uint64_t)size > CATALOG_BYTES_MAX)
        return -EBADMSG;
    room = buffer_reserve(into, (size_t)size + 1);
    if (!room)
        return -ENOMEM;
    result = fs_pread_whole(fs, fd, true, room, (size_t)size, 0);
    if (result == 0)
        into->len += (size_t)size;
    return result;
}

static int read_one(const struct fs *fs, const char *dir, uint64_t generation, struct catalog *out)
{
    struct buffer bytes;
    char name[32], path[PATH_MAX];
    int fd, result;

    catalog_file_name(generation, name);
    if (!path_of(dir, name, path))
        return -ENAMETOOLONG;
    fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    buffer_init(&bytes, CATALOG_BYTES_MAX + 1);
    result = read_all(fs, fd, &bytes);
    fs->ops->close(fs->ctx, fd);
    if (result == 0)
        result = catalog_decode(buffer_slice(&bytes), out);
    buffer_fini(&bytes);
    if (result == 0 && out->generation != generation) { /* under another's name */
        catalog_fini(out);
        return -EBADMSG;
    }
    return result;
}

static int refuse(int result, const char *dir, uint64_t generation, char *error, size_t error_bytes)
{
    char name[32];

    catalog_file_name(generation, name);
    if (result == -EPROTONOSUPPORT)
        snprintf(error, error_bytes,
                 "'%s/%s' has a format newer than %d, the newest this version knows: use the "
                 "version that wrote it, or a newer one",
                 dir, name, CATALOG_FORMAT);
    else if (result == -EBADMSG)
        snprintf(error, error_bytes,
                 "'%s/%s' is damaged, and there is no older one: restore the directory from a "
                 "backup",
                 dir, name);
    else
        snprintf(error, error_bytes, "'%s/%s' cannot be read: %s", dir, name, strerror(-result));
    return result;
}

int catalog_read(const struct fs *fs, const char *dir, struct catalog *out, uint32_t *damaged,
                 char *error, size_t error_bytes)
{
    struct found found;
    uint32_t passed = 0;
    int result = look(fs, dir, UINT64_MAX, &found);

    if (result < 0) {
        snprintf(error, error_bytes, "'%s' cannot be read: %s", dir, strerror(-result));
        return result;
    }
    for (size_t i = 0; i < found.count; i++, passed++) {
        result = read_one(fs, dir, found.generations[i], out);
        if (result == 0) {
            *damaged = passed;
            return 0;
        }
        if (result != -EBADMSG)
            return refuse(result, dir, found.generations[i], error, error_bytes);
    }
    if (passed > 0)
        return refuse(-EBADMSG, dir, found.generations[0], error, error_bytes);
    snprintf(error, error_bytes, "'%s' has no catalog", dir);
    return -ENOENT;
}

/* ---- writing ---- */

static int write_fresh(const struct fs *fs, const char *path, struct slice bytes)
{
    int fd = fs->ops->open(fs->ctx, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int result;

    if (fd < 0)
        return fd;
    result = fs_pwrite_whole(fs, fd, bytes.at, bytes.len, 0);
    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, fd);
    fs->ops->close(fs->ctx, fd);
    return result;
}

/* Durably, so that an old one cannot come back once what only it names is gone. That it fails harms
 * nobody: the next writing removes them. */
static void remove_older(const struct fs *fs, const char *dir, uint64_t generation)
{
    struct found found;
    char name[32], path[PATH_MAX];

    if (look(fs, dir, generation, &found) < 0 || found.count == 0)
        return;
    for (size_t i = 0; i < found.count; i++) {
        catalog_file_name(found.generations[i], name);
        path_of(dir, name, path); /* as long as that of the newest, at most */
        fs->ops->unlink(fs->ctx, path);
    }
    fs->ops->fsync_dir(fs->ctx, dir);
}

static int write_bytes(const struct fs *fs, const char *dir, uint64_t generation,
                       struct slice bytes, bool *is_fatal)
{
    char name[32], fresh[PATH_MAX], path[PATH_MAX];
    bool is_named = false;
    int result;

    catalog_file_name(generation, name);
    if (!path_of(dir, name, path)) /* the other name is no longer */
        return -ENAMETOOLONG;
    path_of(dir, FRESH, fresh);
    result = write_fresh(fs, fresh, bytes);
    if (result == 0)
        result = fs_give_name(fs, dir, fresh, path, &is_named);
    if (result < 0 && !is_named)
        fs->ops->unlink(fs->ctx, fresh);
    *is_fatal = result < 0 && is_named;
    return result;
}

int catalog_write(const struct fs *fs, const char *dir, const struct catalog *catalog,
                  bool *is_fatal)
{
    struct buffer bytes;
    int result = -ENOMEM;

    assert(catalog->generation > 0 && catalog->seed != 0);
    *is_fatal = false;
    buffer_init(&bytes, CATALOG_BYTES_MAX);
    /* There is no other once it counts: what could not be read back must not replace what can. */
    if (catalog_encode(catalog, &bytes))
        result = catalog_check(buffer_slice(&bytes));
    if (result == 0)
        result = write_bytes(fs, dir, catalog->generation, buffer_slice(&bytes), is_fatal);
    buffer_fini(&bytes);
    if (result == 0)
        remove_older(fs, dir, catalog->generation);
    return result;
}
