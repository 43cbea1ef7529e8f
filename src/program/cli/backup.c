/* backup: copies a running server's data directory, with one consistent moment per shard. */
#include "base/buffer.h"
#include "base/clock.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "store/catalog.h"
#include "store/datadir.h"
#include "store/keys.h"
#include "store/marks.h"
#include "store/run.h"
#include "store/wal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- copying ---- */

/*
 * A copy of a running server's files into a backup. Each file is synced before the next begins.
 *
 * Immutable files are shared if the file system supports it: by a reflink, which uses no space, or
 * by a hard link. Blocking; one thread. `pulse` is called every few MiB.
 */

enum { BACKUP_ERROR_BYTES = 1024 };

struct backup_copying {
    bool links; /* hard links are allowed */
    /* Returns false to cancel. */
    bool (*pulse)(void *ctx, uint64_t bytes);
    void *ctx;
    uint64_t copied, shared; /* bytes so far */
    char error[BACKUP_ERROR_BYTES];
};

enum { CHUNK_BYTES = 1 << 20, SYNC_BYTES = 64 << 20 };

static int backup_copy_fail(struct backup_copying *copying, int result, const char *what,
                            const char *path)
{
    snprintf(copying->error, sizeof copying->error, "cannot %s '%.700s': %s", what, path,
             strerror(-result));
    return result;
}

static int open_source(struct backup_copying *copying, const char *from, uint64_t *bytes)
{
    struct stat about;
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0)
        return backup_copy_fail(copying, -errno, "open", from);
    if (fstat(fd, &about) < 0) {
        int result = backup_copy_fail(copying, -errno, "look at", from);
        close(fd);
        return result;
    }
    *bytes = (uint64_t)about.st_size;
    return fd;
}

/* ---- writing into an open file ---- */

static int put(struct backup_copying *copying, int fd, const char *bytes, size_t len, uint64_t at,
               const char *into)
{
    while (len) {
        ssize_t put_now = pwrite(fd, bytes, len, (off_t)at);
        if (put_now < 0 && errno == EINTR)
            continue;
        if (put_now < 0)
            return backup_copy_fail(copying, -errno, "write", into);
        bytes += put_now;
        at += (uint64_t)put_now;
        len -= (size_t)put_now;
    }
    return 0;
}

/* Syncs at intervals, so that the final sync does not exceed the time the server waits for a
 * renewal. Then calls `pulse`. */
static int step(struct backup_copying *copying, int fd, uint64_t at, size_t len, const char *into)
{
    if ((at + len) / SYNC_BYTES != at / SYNC_BYTES && fdatasync(fd) < 0)
        return backup_copy_fail(copying, -errno, "sync", into);
    return copying->pulse(copying->ctx, len) ? 0 : -ECANCELED;
}

/* Copies bytes between files, one chunk at a time. */
static int pour(struct backup_copying *copying, int source, int fd, uint64_t bytes,
                const char *from, const char *into)
{
    static char chunk[CHUNK_BYTES];
    int result = 0;
    for (uint64_t at = 0; result == 0 && at < bytes;) {
        size_t want = bytes - at < CHUNK_BYTES ? (size_t)(bytes - at) : CHUNK_BYTES;
        ssize_t got = pread(source, chunk, want, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return backup_copy_fail(copying, got < 0 ? -errno : -EIO, "read", from);
        result = put(copying, fd, chunk, (size_t)got, at, into);
        if (result == 0)
            result = step(copying, fd, at, (size_t)got, into);
        at += (uint64_t)got;
        copying->copied += (uint64_t)got;
    }
    return result;
}

/* Writes zeros instead of a hole, because the server that opens the file relies on allocated
 * space. */
static int fill(struct backup_copying *copying, int fd, uint64_t at, uint64_t end, const char *into)
{
    static char zeros[CHUNK_BYTES]; /* not constant: the program file would contain them */
    int result = 0;
    while (result == 0 && at < end) {
        size_t len = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
        result = put(copying, fd, zeros, len, at, into);
        if (result == 0)
            result = step(copying, fd, at, len, into);
        at += len;
    }
    return result;
}

static int make(struct backup_copying *copying, const char *into)
{
    int fd = open(into, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? backup_copy_fail(copying, -errno, "make", into) : fd;
}

/* Syncs and closes a file. */
static int settle(struct backup_copying *copying, int fd, int result, const char *into)
{
    if (result == 0 && fsync(fd) < 0)
        result = backup_copy_fail(copying, -errno, "sync", into);
    if (close(fd) < 0 && result == 0)
        result = backup_copy_fail(copying, -errno, "close", into);
    return result;
}

/* ---- whole files ---- */

/* Copies the first `bytes` of a file, followed by zeros up to `file_bytes`. If `bytes` is
 * UINT64_MAX, copies the file at its current size. */
static int backup_copy(struct backup_copying *copying, const char *from, const char *into,
                       uint64_t bytes, uint64_t file_bytes)
{
    uint64_t there = 0;
    int source = open_source(copying, from, &there), fd, result;
    if (source < 0)
        return source;
    if (bytes == UINT64_MAX)
        bytes = file_bytes = there;
    fd = make(copying, into);
    result = fd < 0 ? fd : pour(copying, source, fd, bytes, from, into);
    if (result == 0)
        result = fill(copying, fd, bytes, file_bytes, into);
    if (fd >= 0)
        result = settle(copying, fd, result, into);
    close(source);
    return result;
}

static bool reflink(int source, const char *into)
{
    int fd = open(into, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && ioctl(fd, FICLONE, source) == 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !ok)
        unlink(into);
    return ok;
}

/* Shares or copies an immutable file. Returns 0 or a negative errno with `error`; -ENOENT and
 * -ECANCELED (cancelled by `pulse`) do not set it. */
static int backup_share(struct backup_copying *copying, const char *from, const char *into)
{
    uint64_t bytes = 0;
    int source = open_source(copying, from, &bytes);
    if (source < 0)
        return source;
    bool is_shared =
        reflink(source, into) || (copying->links && linkat(AT_FDCWD, from, AT_FDCWD, into, 0) == 0);
    close(source);
    if (!is_shared)
        return backup_copy(copying, from, into, UINT64_MAX, 0);
    copying->shared += bytes;
    return copying->pulse(copying->ctx, bytes) ? 0 : -ECANCELED;
}

/* Creates a file with this text. */
static int backup_write(struct backup_copying *copying, const char *into, struct slice text)
{
    int fd = make(copying, into);
    if (fd < 0)
        return fd;
    return settle(copying, fd, put(copying, fd, text.at, text.len, 0, into), into);
}

static int backup_sync_dir(struct backup_copying *copying, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
    if (fd < 0)
        return backup_copy_fail(copying, -errno, "open", path);
    if (fsync(fd) < 0)
        result = backup_copy_fail(copying, -errno, "sync", path);
    close(fd);
    return result;
}

enum { RENEW_US = 10 * 1000 * 1000, CATALOG_TRIES = 500, CATALOG_PAUSE_US = 20 * 1000 };

struct extent {
    uint32_t file, bytes, file_bytes;
};

/* A shard at the moment that the server reported. */
struct moment {
    struct catalog catalog; /* zeroed: no catalog */
    struct extent *log;
    size_t log_count;
    uint64_t epoch, sequence; /* epoch of the log and its last batch */
};

struct backup {
    struct client client;
    char id[32];
    char from[PATH_MAX - 128], into[PATH_MAX - 128];
    struct moment moments[DATADIR_SHARDS_MAX];
    uint32_t shards;
    struct backup_copying copying;
    uint64_t done, total; /* bytes */
    int64_t renewed_us;
    int exit_code; /* of an error during copying */
};

static int print_copy_error(struct backup *backup)
{
    if (backup->copying.error[0])
        cli_error("%s", backup->copying.error);
    return CLI_REFUSED;
}

/* ---- the server ---- */

static int call(struct backup *backup, const char *method)
{
    struct buffer *target = client_begin(&backup->client);
    cli_url_add_segment(target, "backup");
    if (backup->id[0])
        cli_url_add_segment(target, backup->id);
    int exit_code = client_call(&backup->client, method, NULL, 0);
    backup->renewed_us = clock_boot_us();
    /* "Not found" is an error for a backup: files may have been deleted. */
    return exit_code == CLI_NOTHING ? CLI_REFUSED : exit_code;
}

static int begin_backup(struct backup *backup)
{
    int exit_code = call(backup, "POST");
    if (exit_code != CLI_OK)
        return exit_code;
    const json_t *answer = backup->client.json;
    const char *id = json_string_value(json_object_get(answer, "id"));
    const char *from = json_string_value(json_object_get(answer, "data"));
    size_t shards = json_array_size(json_object_get(answer, "shards"));
    if (!id || strlen(id) >= sizeof backup->id || !from || strlen(from) >= sizeof backup->from ||
        shards == 0 || shards > DATADIR_SHARDS_MAX)
        return cli_error(
            "this version does not understand the server's answer, use the server's own 'tarry'");
    strcpy(backup->id, id);
    strcpy(backup->from, from);
    backup->shards = (uint32_t)shards;
    return CLI_OK;
}

static bool on_pulse(void *ctx, uint64_t bytes)
{
    struct backup *backup = ctx;
    backup->done += bytes;
    if (interrupt_came()) {
        backup->exit_code = cli_error("interrupted");
        return false;
    }
    if (clock_boot_us() - backup->renewed_us > RENEW_US)
        backup->exit_code = call(backup, "PUT");
    progress_show_bytes(backup->done, backup->total);
    return backup->exit_code == CLI_OK;
}

/* Checks that the server's data directory is the one here. The same path may name another
 * directory in a container or on another machine. */
static int check_is_here(struct backup *backup)
{
    char path[PATH_MAX], text[32] = "";
    long pid = (long)json_integer_value(json_object_get(backup->client.json, "pid"));
    snprintf(path, sizeof path, "%s/LOCK", backup->from);
    FILE *lock = fopen(path, "re");
    bool is_its_own = lock && fgets(text, sizeof text, lock) && strtol(text, NULL, 10) == pid;
    int fault = lock ? 0 : errno;
    if (lock)
        fclose(lock);
    if (fault && fault != ENOENT)
        return cli_error("cannot open '%s': %s; run this as the user of the server", path,
                         strerror(fault));
    if (!is_its_own)
        return cli_error("the data directory of that server, '%s', is not on this machine; run "
                         "this on the machine, and in the container, of the server",
                         backup->from);
    return CLI_OK;
}

/* ---- paths ---- */

static void shard_path(char out[PATH_MAX], const char *root, uint32_t shard, const char *name)
{
    snprintf(out, PATH_MAX, "%s/shard-%02" PRIu32 "%s%s", root, shard, *name ? "/" : "", name);
}

static int both_paths(const struct backup *backup, uint32_t shard, const char *folder,
                      const char *name, char from[PATH_MAX], char into[PATH_MAX])
{
    char relative[64];
    snprintf(relative, sizeof relative, "%s/%s", folder, name);
    shard_path(from, backup->from, shard, relative);
    shard_path(into, backup->into, shard, relative);
    return 0;
}

/* ---- the new directory ---- */

static bool is_empty(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool empty = true;
    while (dir && (entry = readdir(dir)))
        empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (dir)
        closedir(dir);
    return dir && empty;
}

/* Creates the directory of the backup, or uses an existing empty one. Only its owner may access
 * it. */
static int make_root(struct backup *backup, const char *path)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return cli_error("cannot create '%s': %s", path, strerror(errno));
    if (!is_empty(path))
        return cli_error("'%s' is not an empty directory, name one that does not exist", path);
    char whole[PATH_MAX];
    if (chmod(path, 0700) < 0 || !realpath(path, whole))
        return cli_error("cannot use '%s': %s", path, strerror(errno));
    if (strlen(whole) >= sizeof backup->into)
        return cli_error("the path of '%s' is too long", path);
    strcpy(backup->into, whole);
    return CLI_OK;
}

static int make_shards(struct backup *backup)
{
    static const char *const folders[] = {"", "wal", "run"};
    char path[PATH_MAX];
    for (uint32_t i = 0; i < backup->shards; i++)
        for (size_t folder = 0; folder < sizeof folders / sizeof folders[0]; folder++) {
            shard_path(path, backup->into, i, folders[folder]);
            if (mkdir(path, 0700) < 0)
                return cli_error("cannot create '%s': %s", path, strerror(errno));
        }
    return CLI_OK;
}

static int mark_incomplete(struct backup *backup)
{
    static const char text[] =
        "This backup was not completed and cannot be used. Remove it and make another one.\n";
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" DATADIR_INCOMPLETE, backup->into);
    int result = backup_write(&backup->copying, path, slice_of(text));
    if (result == 0)
        result = backup_sync_dir(&backup->copying, backup->into);
    return result < 0 ? print_copy_error(backup) : CLI_OK;
}

/* ---- the moment of a shard ---- */

static uint32_t number_of(const json_t *object, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(object, key));
}

/* Stores the extents of the log that the server reported for this moment. */
static int note_log(struct moment *moment, const json_t *shard)
{
    const json_t *log = json_object_get(shard, "log"), *file;
    size_t i;
    free(moment->log);
    moment->log_count = json_array_size(log);
    moment->log = calloc(moment->log_count + 1, sizeof *moment->log);
    if (!moment->log)
        return cli_error("out of memory");
    json_array_foreach(log, i, file) moment->log[i] =
        (struct extent){.file = number_of(file, "file"),
                        .bytes = number_of(file, "bytes"),
                        .file_bytes = number_of(file, "file_bytes")};
    return CLI_OK;
}

/* Copies the catalog. Returns -ENOENT if the server has written a newer one meanwhile, which it
 * then reports. */
static int copy_catalog(struct backup *backup, uint32_t index, uint64_t generation)
{
    struct moment *moment = &backup->moments[index];
    char name[32], from[PATH_MAX], into[PATH_MAX], dir[PATH_MAX], unused[PATH_MAX], copy[PATH_MAX];
    uint32_t damaged = 0;
    catalog_file_name(generation, name);
    both_paths(backup, index, "run", name, from, into);
    int result = backup_copy(&backup->copying, from, into, UINT64_MAX, 0);
    if (result < 0)
        return result;
    catalog_copy_name(generation, name);
    both_paths(backup, index, "run", name, unused, copy);
    result = backup_copy(&backup->copying, from, copy, UINT64_MAX, 0);
    if (result < 0)
        return result;
    shard_path(dir, backup->into, index, "run");
    return catalog_read(&fs_posix, dir, &moment->catalog, &damaged, backup->copying.error,
                        sizeof backup->copying.error);
}

/*
 * Copies the catalog first, with the end of the log that the server reported together with it: a
 * catalog must not be ahead of the log beside it.
 */
static int take_moment(struct backup *backup, uint32_t index)
{
    int result = -ENOENT, exit_code = CLI_OK;
    for (int i = 0; result == -ENOENT && i < CATALOG_TRIES && exit_code == CLI_OK; i++) {
        if (i) {
            usleep(CATALOG_PAUSE_US);
            exit_code = call(backup, "PUT");
            if (exit_code != CLI_OK)
                return exit_code;
        }
        const json_t *shard = json_array_get(json_object_get(backup->client.json, "shards"), index);
        int64_t generation = json_integer_value(json_object_get(shard, "generation"));
        exit_code = note_log(&backup->moments[index], shard);
        backup->moments[index].epoch =
            (uint64_t)json_integer_value(json_object_get(shard, "epoch"));
        backup->moments[index].sequence =
            (uint64_t)json_integer_value(json_object_get(shard, "sequence"));
        result = generation ? copy_catalog(backup, index, (uint64_t)generation) : 0;
    }
    if (result == -ENOENT)
        return cli_error("the catalog of shard %" PRIu32 " is not in '%s'", index, backup->from);
    return result < 0 ? print_copy_error(backup) : exit_code;
}

/* ---- copying ---- */

static int copy_log(struct backup *backup, uint32_t index)
{
    const struct moment *moment = &backup->moments[index];
    char name[32], from[PATH_MAX], into[PATH_MAX];
    shard_path(from, backup->from, index, "wal");
    shard_path(into, backup->into, index, "wal");
    if (moment->log_count == 0)
        return cli_error(
            "this version does not understand the server's answer, use the server's own 'tarry'");
    int result = wal_copy_manifest(&fs_posix, from, into, moment->log[moment->log_count - 1].file,
                                   moment->sequence);
    if (result < 0)
        return cli_error("cannot copy '%s/MANIFEST': %s", from, strerror(-result));
    for (size_t i = 0; result == 0 && i < moment->log_count; i++) {
        const struct extent *extent = &moment->log[i];
        if (extent->file < moment->catalog.log_first)
            continue;
        snprintf(name, sizeof name, "%08" PRIu32 ".log", extent->file);
        both_paths(backup, index, "wal", name, from, into);
        result = backup_copy(&backup->copying, from, into, extent->bytes, extent->file_bytes);
    }
    if (result == -ENOENT)
        return cli_error("'%s' is gone although the server should have kept it", from);
    return result < 0 ? print_copy_error(backup) : CLI_OK;
}

/* Shares or copies every run and key table listed in the moment's catalog. */
static int copy_runs(struct backup *backup, uint32_t index)
{
    const struct catalog *catalog = &backup->moments[index].catalog;
    char name[32], from[PATH_MAX], into[PATH_MAX];
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < catalog->run_count + catalog->key_count; i++) {
        if (i < catalog->run_count)
            run_file_name(catalog->runs[i].number, name);
        else
            keys_file_name(catalog->keys[i - catalog->run_count], name);
        both_paths(backup, index, "run", name, from, into);
        result = backup_share(&backup->copying, from, into);
    }
    if (result == -ENOENT)
        return cli_error("'%s' is gone although the server should have kept it", from);
    return result < 0 ? print_copy_error(backup) : CLI_OK;
}

static int sync_shard(struct backup *backup, uint32_t index)
{
    static const char *const folders[] = {"wal", "run", ""};
    char path[PATH_MAX];
    int result = 0;
    for (size_t i = 0; result == 0 && i < sizeof folders / sizeof folders[0]; i++) {
        shard_path(path, backup->into, index, folders[i]);
        result = backup_sync_dir(&backup->copying, path);
    }
    return result < 0 ? print_copy_error(backup) : CLI_OK;
}

static uint64_t size_of(const struct backup *backup, uint32_t index, const char *name)
{
    char from[PATH_MAX], into[PATH_MAX];
    struct stat about;
    both_paths(backup, index, "run", name, from, into);
    return stat(from, &about) == 0 ? (uint64_t)about.st_size : 0;
}

/* Computes the total size for the progress display. */
static void sum_up(struct backup *backup)
{
    char name[32];
    for (uint32_t i = 0; i < backup->shards; i++) {
        const struct moment *moment = &backup->moments[i];
        for (size_t at = 0; at < moment->log_count; at++)
            if (moment->log[at].file >= moment->catalog.log_first)
                backup->total += moment->log[at].file_bytes;
        for (uint32_t at = 0; at < moment->catalog.run_count; at++) {
            run_file_name(moment->catalog.runs[at].number, name);
            backup->total += size_of(backup, i, name);
        }
        for (uint32_t at = 0; at < moment->catalog.key_count; at++) {
            keys_file_name(moment->catalog.keys[at], name);
            backup->total += size_of(backup, i, name);
        }
    }
}

/* ---- the complete backup ---- */

/* Writes the backup's marks: the position of each shard. */
static int write_marks(struct backup *backup, const char *manifest)
{
    struct marks marks = {.generation = 1, .shards = backup->shards};
    struct datadir_manifest about;
    char text[MANIFEST_BYTES_MAX];
    FILE *file = fopen(manifest, "re");
    size_t len = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    if (manifest_parse(slice_make(text, len), &about) < 0)
        return cli_error("'%s' is damaged", manifest);
    memcpy(marks.store, about.name, sizeof marks.store);
    for (uint32_t i = 0; i < backup->shards; i++)
        marks.shard[i] = (struct marks_shard){.epoch = backup->moments[i].epoch,
                                              .synced = backup->moments[i].sequence};
    int result = marks_write(&fs_posix, backup->into, &marks);
    return result < 0 ? cli_error("cannot write '%s/MARKS': %s", backup->into, strerror(-result))
                      : CLI_OK;
}

/* Completes the backup. Only afterwards is it a valid data directory. */
static int complete(struct backup *backup)
{
    char from[PATH_MAX], into[PATH_MAX], copy[PATH_MAX], mark[PATH_MAX];
    snprintf(from, sizeof from, "%s/MANIFEST", backup->from);
    snprintf(into, sizeof into, "%s/MANIFEST", backup->into);
    snprintf(copy, sizeof copy, "%s/" DATADIR_MANIFEST_COPY, backup->into);
    snprintf(mark, sizeof mark, "%s/" DATADIR_INCOMPLETE, backup->into);
    int result = backup_copy(&backup->copying, from, copy, UINT64_MAX, 0);
    if (result == 0)
        result = backup_copy(&backup->copying, from, into, UINT64_MAX, 0);
    if (result == -ENOENT)
        return cli_error("'%s' is gone", from);
    int exit_code = result < 0 ? print_copy_error(backup) : write_marks(backup, into);
    if (exit_code != CLI_OK)
        return exit_code;
    if (backup_sync_dir(&backup->copying, backup->into) < 0)
        return print_copy_error(backup);
    if (unlink(mark) < 0)
        return cli_error("cannot remove '%s': %s", mark, strerror(errno));
    return backup_sync_dir(&backup->copying, backup->into) < 0 ? print_copy_error(backup) : CLI_OK;
}

/* Fixes a moment of every shard, then copies the files of each. */
static int copy_all(struct backup *backup)
{
    int exit_code = CLI_OK;
    for (uint32_t i = 0; exit_code == CLI_OK && i < backup->shards; i++)
        exit_code = take_moment(backup, i);
    sum_up(backup);
    for (uint32_t i = 0; exit_code == CLI_OK && i < backup->shards; i++) {
        exit_code = copy_log(backup, i);
        if (exit_code == CLI_OK)
            exit_code = copy_runs(backup, i);
        if (exit_code == CLI_OK)
            exit_code = sync_shard(backup, i);
    }
    return exit_code == CLI_OK ? backup->exit_code : exit_code;
}

/* Makes the backup. The copy is valid only if the server has kept all files until the end. */
static int run_backup(struct backup *backup, const char *path)
{
    int exit_code = check_is_here(backup);
    if (exit_code == CLI_OK)
        exit_code = make_root(backup, path);
    bool has_begun = exit_code == CLI_OK;
    if (exit_code == CLI_OK)
        exit_code = mark_incomplete(backup);
    if (exit_code == CLI_OK)
        exit_code = make_shards(backup);
    if (exit_code == CLI_OK)
        exit_code = copy_all(backup);
    progress_clear();
    if (exit_code != CLI_UNREACHABLE) {
        int ended = call(backup, "DELETE");
        exit_code = exit_code == CLI_OK ? ended : exit_code;
    }
    if (exit_code == CLI_OK)
        exit_code = complete(backup);
    if (exit_code != CLI_OK && has_begun)
        cli_error("'%s' is not complete, remove it and make another backup", path);
    return exit_code;
}

static void print_done(const struct backup *backup, const char *path, bool json)
{
    const struct backup_copying *copying = &backup->copying;
    fprintf(stderr, "backed up '%s' into '%s': %" PRIu64 " bytes copied, %" PRIu64 " shared\n",
            backup->from, path, copying->copied, copying->shared);
    if (json)
        printf("{\"shards\":%" PRIu32 ",\"bytes_copied\":%" PRIu64 ",\"bytes_shared\":%" PRIu64
               "}\n",
               backup->shards, copying->copied, copying->shared);
}

static void fini(struct backup *backup)
{
    client_close(&backup->client);
    for (uint32_t i = 0; i < backup->shards; i++) {
        catalog_fini(&backup->moments[i].catalog);
        free(backup->moments[i].log);
    }
}

static int backup_command(int argc, char **argv)
{
    static struct backup backup; /* too large for the stack */
    bool copies = false, wants_progress = false;
    const struct cli_flag flags[] = {
        {"copy", CLI_SWITCH, &copies, NULL, "Copy all files instead of linking them"},
        {"progress", CLI_SWITCH, &wants_progress, NULL,
         "Print progress lines although standard error is not a terminal"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "backup DIR [--copy]",
        .about = "Copies the data directory of a running server as of one moment: the copy "
                 "contains every\n"
                 "change answered before this command. Run it on the server's machine, as a user "
                 "who may\n"
                 "read its directory. DIR is created, or must be empty.\n"
                 "\n"
                 "On one file system, files that never change become hard links, which use no "
                 "space but\n"
                 "do not protect against a disk failure: use --copy, or another disk.\n"
                 "\n"
                 "To restore: stop the server, check the copy with 'tarry fsck', and start the "
                 "server with\n"
                 "it as --data.",
        .flags = flags,
        .least = 1,
        .most = 1,
    };
    struct cli_args args;
    backup = (struct backup){0};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    backup.copying = (struct backup_copying){.links = !copies, .pulse = on_pulse, .ctx = &backup};
    progress_begin("copied", wants_progress);
    if (!client_open(&backup.client, args.url))
        return CLI_REFUSED;
    interrupt_catch();
    exit_code = begin_backup(&backup);
    if (exit_code == CLI_OK)
        exit_code = run_backup(&backup, args.list.at[0]);
    if (exit_code == CLI_OK)
        print_done(&backup, args.list.at[0], args.json);
    fini(&backup);
    return exit_code;
}

const struct cli_command cli_backup_commands[] = {
    {.name = "backup",
     .run = backup_command,
     .help = "copy the data directory of a running server"},
    {0},
};
