/* The files of a log: names, headers, their table; making one ready. */
#include "job/wire.h"
#include "store/wal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A file's header: MAGIC · u32 format · u32 number · u32 bytes · u64 epoch · u64 sum of that; zeros
 * up to WAL_HEADER_BYTES. */
static const char MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'l', 'o', 'g'};

enum { HEADER_USED_BYTES = 36, FILL_BYTES = 1 << 20, FILL_SYNC_BYTES = 4 << 20 };

/* ---- small change ---- */

/* Each commit asks for a path: printf would cost it 1,500 instructions. */
void wal_path(const struct wal_disk *disk, const char *name, char out[PATH_MAX])
{
    size_t dir_bytes = strlen(disk->dir), name_bytes = strlen(name);

    if (dir_bytes + 1 + name_bytes >= PATH_MAX) { /* too long for any file: it will not be found */
        snprintf(out, PATH_MAX, "%s/", disk->dir);
        return;
    }
    memcpy(out, disk->dir, dir_bytes);
    out[dir_bytes] = '/';
    memcpy(out + dir_bytes + 1, name, name_bytes + 1);
}

int wal_complain(char *error, size_t error_bytes, int result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return result;
}

/* Eight digits or more, and ".log". */
void wal_file_name(uint32_t number, char out[32])
{
    size_t digits = 8;

    for (uint32_t above = number / 100000000; above > 0; above /= 10)
        digits++;
    memcpy(out + digits, ".log", sizeof ".log");
    for (size_t i = digits; i-- > 0; number /= 10)
        out[i] = (char)('0' + number % 10);
}

uint32_t wal_file_number(const char *name)
{
    char again[32];
    char *end;
    unsigned long number = strtoul(name, &end, 10);

    if (*name < '0' || *name > '9' || strcmp(end, ".log") != 0 || number > UINT32_MAX)
        return 0;
    wal_file_name((uint32_t)number, again);
    return strcmp(name, again) == 0 ? (uint32_t)number : 0;
}

/* ---- the table ---- */

struct wal_file *wal_files_find(const struct wal_files *files, uint32_t number)
{
    uint32_t index;

    if (files->count == 0 || number < files->at[0]->number)
        return NULL;
    index = number - files->at[0]->number;
    return index < files->count ? files->at[index] : NULL;
}

bool wal_files_add(struct wal_files *files, struct wal_file *file)
{
    assert(files->count == 0 || files->at[files->count - 1]->number + 1 == file->number);
    if (files->count == files->cap) {
        uint32_t cap = files->cap ? files->cap * 2 : 16;
        struct wal_file **at = realloc(files->at, cap * sizeof *at);

        if (!at)
            return false;
        files->at = at;
        files->cap = cap;
    }
    files->at[files->count++] = file;
    return true;
}

static void close_file(const struct wal_disk *disk, struct wal_file *file)
{
    disk->fs->ops->close(disk->fs->ctx, file->fd);
    free(file);
}

void wal_files_drop_first(const struct wal_disk *disk, struct wal_files *files)
{
    close_file(disk, files->at[0]);
    memmove(files->at, files->at + 1, --files->count * sizeof *files->at);
}

void wal_files_drop_last(const struct wal_disk *disk, struct wal_files *files)
{
    close_file(disk, files->at[--files->count]);
}

void wal_files_fini(const struct wal_disk *disk, struct wal_files *files)
{
    while (files->count)
        wal_files_drop_last(disk, files);
    free(files->at);
    *files = (struct wal_files){0};
}

/* ---- headers ---- */

void wal_file_header(const struct wal_disk *disk, uint32_t format, uint32_t number, uint32_t bytes,
                     uint64_t epoch, char *out)
{
    char *at = out + sizeof MAGIC;

    memset(out, 0, WAL_HEADER_BYTES);
    memcpy(out, MAGIC, sizeof MAGIC);
    at = wire_put_u32(at, format);
    at = wire_put_u32(at, number);
    at = wire_put_u32(at, bytes);
    at = wire_put_u64(at, epoch);
    wire_put_u64(at, wal_sum(out, (size_t)(at - out), disk->seed));
}

/* The header is what would be written again just so. */
static bool header_is_sound(const struct wal_disk *disk, const char *header, int64_t size,
                            struct wal_file *file)
{
    struct wire_in in =
        wire_in_make(slice_make(header + sizeof MAGIC, HEADER_USED_BYTES - sizeof MAGIC));
    const uint32_t format = wire_take_u32(&in);
    char again[WAL_HEADER_BYTES];

    wire_take_u32(&in);
    file->bytes = wire_take_u32(&in);
    wal_file_header(disk, format, file->number, file->bytes, wire_take_u64(&in), again);
    return memcmp(header, again, WAL_HEADER_BYTES) == 0 && format == WAL_FORMAT &&
           file->bytes >= WAL_FILE_BYTES_MIN && size == file->bytes;
}

static int open_one(const struct wal_disk *disk, uint32_t number, int flags, struct wal_file **out,
                    char *error, size_t error_bytes)
{
    const struct fs *fs = disk->fs;
    char name[32], path[PATH_MAX], header[WAL_HEADER_BYTES];
    struct wal_file found = {.number = number, .stamp = {.bytes = -1}, .end = WAL_HEADER_BYTES},
                    *file;
    ssize_t got;
    int fd;

    wal_file_name(number, name);
    wal_path(disk, name, path);
    fd = fs->ops->open(fs->ctx, path, flags, 0);
    if (fd < 0)
        return wal_complain(error, error_bytes, fd, "cannot open log file '%s': %s", path,
                            strerror(-fd));
    got = fs_pread_some(fs, fd, true, header, sizeof header, 0);
    if (got < 0) {
        fs->ops->close(fs->ctx, fd);
        return wal_complain(error, error_bytes, (int)got, "cannot read log file '%s': %s", path,
                            strerror((int)-got));
    }
    if (got < WAL_HEADER_BYTES ||
        !header_is_sound(disk, header, fs->ops->size(fs->ctx, fd), &found)) {
        fs->ops->close(fs->ctx, fd);
        return wal_complain(
            error, error_bytes, -EBADMSG,
            "log file '%s' is damaged at byte 0: its header or size is wrong; restore it "
            "from a backup (nothing was changed)",
            path);
    }
    file = calloc(1, sizeof *file);
    if (!file) {
        fs->ops->close(fs->ctx, fd);
        return wal_complain(error, error_bytes, -ENOMEM, "out of memory");
    }
    found.fd = fd;
    *file = found;
    *out = file;
    return 0;
}

/* ---- what is there ---- */

struct listing {
    uint32_t first, newest, count; /* of those from `first` on */
};

static void note_file(void *ctx, const char *name)
{
    struct listing *listing = ctx;
    uint32_t number = wal_file_number(name);

    if (number < listing->first || number == 0)
        return;
    listing->count++;
    if (number > listing->newest)
        listing->newest = number;
}

int wal_files_open(const struct wal_disk *disk, uint32_t first, int flags, struct wal_files *files,
                   char *error, size_t error_bytes)
{
    struct listing listing = {.first = first};
    int result = disk->fs->ops->list(disk->fs->ctx, disk->dir, note_file, &listing);

    if (result < 0)
        return wal_complain(error, error_bytes, result, "cannot list '%s': %s", disk->dir,
                            strerror(-result));
    for (uint32_t number = first; result == 0 && (number <= listing.newest || number == first);
         number++) {
        struct wal_file *file;

        result = open_one(disk, number, flags, &file, error, error_bytes);
        if (result == -ENOENT)
            return wal_complain(error, error_bytes, -EBADMSG,
                                "log file %" PRIu32
                                " is missing in '%s'; restore it from a backup (nothing "
                                "was changed)",
                                number, disk->dir);
        if (result == 0 && !wal_files_add(files, file)) {
            close_file(disk, file);
            result = wal_complain(error, error_bytes, -ENOMEM, "out of memory");
        }
    }
    return result;
}

int wal_files_open_readable(const struct wal_disk *disk, uint32_t first, struct wal_files *files)
{
    struct listing listing = {.first = first};
    char why[WAL_ERROR_BYTES];

    (void)disk->fs->ops->list(disk->fs->ctx, disk->dir, note_file, &listing);
    for (uint32_t number = first; number <= listing.newest; number++) {
        struct wal_file *file;
        int result = open_one(disk, number, O_RDONLY, &file, why, sizeof why);

        if (result == 0 && !wal_files_add(files, file)) {
            close_file(disk, file);
            result = -ENOMEM;
        }
        if (result == -ENOMEM)
            return result;
    }
    return 0;
}

/* ---- making ---- */

/* Whether the disk is known to have less space than that. */
static bool lacks_space(const struct fs *fs, int fd, uint32_t bytes)
{
    struct fs_room room;

    return fs->ops->room && fs->ops->room(fs->ctx, fd, &room) == 0 && room.free_bytes < bytes;
}

/* Writes zeros. Nothing is begun that has no space: what it took meanwhile others could not have. */
static int fill(const struct fs *fs, int fd, uint32_t bytes)
{
    uint32_t portion = bytes < FILL_BYTES ? bytes : FILL_BYTES;
    char *zeros = calloc(1, portion);
    int result = !zeros ? -ENOMEM : lacks_space(fs, fd, bytes) ? -ENOSPC : 0;
    uint32_t at = 0, unsynced = 0;

    while (result == 0 && at < bytes) {
        uint32_t some = bytes - at < portion ? bytes - at : portion;

        result = fs_pwrite_whole(fs, fd, zeros, some, at);
        at += some;
        unsynced += some;
        /* In small portions, so that commits do not wait behind all of it. */
        if (result == 0 && (unsynced >= FILL_SYNC_BYTES || at == bytes)) {
            result = fs->ops->fdatasync(fs->ctx, fd);
            unsynced = 0;
        }
    }
    free(zeros);
    return result;
}

int wal_file_unlink(const struct wal_disk *disk, uint32_t number)
{
    char name[32], path[PATH_MAX];

    wal_file_name(number, name);
    wal_path(disk, name, path);
    return disk->fs->ops->unlink(disk->fs->ctx, path);
}

/*
 * The file gets its header and is synced under a name that does not count (a temporary one, or one
 * older than the manifest's first), and only then its own: a file with a name that counts is always
 * whole.
 */
int wal_file_make(const struct wal_disk *disk, uint32_t number, uint32_t bytes, uint64_t epoch,
                  uint32_t spare, struct wal_file **out, bool *is_fatal)
{
    const struct fs *fs = disk->fs;
    char name[32], path[PATH_MAX], from[PATH_MAX], header[WAL_HEADER_BYTES];
    struct wal_file *file = calloc(1, sizeof *file);
    bool is_named;
    int result, fd;

    if (!file)
        return -ENOMEM;
    wal_file_name(number, name);
    wal_path(disk, name, path);
    if (spare)
        wal_file_name(spare, name);
    wal_path(disk, spare ? name : "next.tmp", from);
    fd = fs->ops->open(fs->ctx, from, O_RDWR | (spare ? 0 : O_CREAT | O_TRUNC), 0600);
    result = fd < 0 ? fd : 0;
    if (result == 0 && !spare)
        result = fill(fs, fd, bytes);
    if (result == 0) {
        wal_file_header(disk, WAL_FORMAT, number, bytes, epoch, header);
        result = fs_pwrite_whole(fs, fd, header, sizeof header, 0);
    }
    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, fd);
    if (result == 0) {
        result = fs_give_name(fs, disk->dir, from, path, &is_named);
        /* Where there is no descriptor for it, no sync was tried: the next attempt makes the name
         * again. */
        *is_fatal = is_named && result < 0 && result != -EMFILE && result != -ENFILE;
    } else if (fd >= 0) {
        (void)fs->ops->unlink(fs->ctx,
                              from); /* its pages are not to be trusted, or its space is needed */
    }
    if (result < 0) {
        if (fd >= 0)
            fs->ops->close(fs->ctx, fd);
        free(file);
        return result;
    }
    *file = (struct wal_file){.number = number,
                              .bytes = bytes,
                              .fd = fd,
                              .stamp = fs_stamp(fs, fd),
                              .end = WAL_HEADER_BYTES};
    *out = file;
    return 0;
}
