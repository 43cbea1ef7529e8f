/* The files of a log: names, headers, and their table; creating a file. */
#include "base/vector.h"
#include "job/wire.h"
#include "store/wal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A file's header: MAGIC · u32 format · u32 number · u32 bytes · the identity · u64 the log's seed
 * · u64 epoch · u64 checksum of these, computed without the seed; zeros up to WAL_HEADER_BYTES. */
static const char MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'l', 'o', 'g'};

enum {
    HEADER_USED_BYTES = 8 + 3 * 4 + STORE_IDENTITY_BYTES + 3 * 8,
    FILL_BYTES = 256 << 10,
    FILL_SYNC_BYTES = 4 << 20
};

/* ---- helpers ---- */

/* Builds a path. Each commit needs one, and printf would cost it 1,500 instructions. */
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

/* Writes the name: eight digits or more, and ".log". */
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

struct wal_file *wal_files_search(const struct wal_files *files, uint32_t number)
{
    uint32_t low = 0, high = files->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (files->at[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < files->count && files->at[low]->number == number ? files->at[low] : NULL;
}

bool wal_files_add(struct wal_files *files, struct wal_file *file)
{
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
    store_identity_encode(&disk->identity, at);
    at = wire_put_u64(at + STORE_IDENTITY_BYTES, disk->seed);
    at = wire_put_u64(at, epoch);
    wire_put_u64(at, wal_sum(out, (size_t)(at - out), 0));
}

bool wal_file_header_decode(const char *header, struct wal_file_about *out)
{
    const char *identity = header + sizeof MAGIC + 12;
    struct wire_in in = wire_in_make(slice_make(header + sizeof MAGIC, 12));

    if (memcmp(header, MAGIC, sizeof MAGIC) != 0)
        return false;
    out->format = wire_take_u32(&in);
    out->number = wire_take_u32(&in);
    out->bytes = wire_take_u32(&in);
    out->identity = store_identity_decode(identity);
    in = wire_in_make(slice_make(identity + STORE_IDENTITY_BYTES, 24));
    out->seed = wire_take_u64(&in);
    out->epoch = wire_take_u64(&in);
    return wire_take_u64(&in) == wal_sum(header, HEADER_USED_BYTES - 8, 0);
}

/* Returns what is wrong with a header, or NULL if encoding its values again gives the same
 * bytes. */
static const char *check_header(const struct wal_disk *disk, const char *header, uint32_t number,
                                int64_t size, struct wal_file_about *about)
{
    char again[WAL_HEADER_BYTES];

    if (!wal_file_header_decode(header, about))
        return "its header is damaged";
    if (about->format != WAL_FORMAT)
        return "this version does not support its format";
    if (!store_identity_equals(&about->identity, &disk->identity) || about->seed != disk->seed)
        return "it belongs to another log";
    if (about->number != number)
        return "it is another file of this log";
    wal_file_header(disk, about->format, number, about->bytes, about->epoch, again);
    if (memcmp(header, again, WAL_HEADER_BYTES) != 0 || about->bytes < WAL_FILE_BYTES_MIN)
        return "its header is damaged";
    return size < about->bytes ? "it is too short" : NULL;
}

/* Opens a file of the log's directory and reads its header, zero-padded if the file is shorter.
 * Returns the descriptor or a negative errno. */
static int open_named(const struct wal_disk *disk, const char *name, int flags,
                      char header[WAL_HEADER_BYTES], int64_t *size)
{
    const struct fs *fs = disk->fs;
    char path[PATH_MAX];
    ssize_t got;
    int fd;

    wal_path(disk, name, path);
    fd = fs->ops->open(fs->ctx, path, flags, 0);
    if (fd < 0)
        return fd;
    memset(header, 0, WAL_HEADER_BYTES);
    got = fs_pread_some(fs, fd, true, header, WAL_HEADER_BYTES, 0);
    *size = got < 0 ? got : fs->ops->size(fs->ctx, fd);
    if (*size >= 0)
        return fd;
    fs->ops->close(fs->ctx, fd);
    return (int)*size;
}

int wal_file_look(const struct wal_disk *disk, const char *name, struct wal_file_about *out)
{
    char header[WAL_HEADER_BYTES];
    int64_t size;
    int fd = open_named(disk, name, O_RDONLY, header, &size);

    if (fd < 0)
        return fd;
    disk->fs->ops->close(disk->fs->ctx, fd);
    return wal_file_header_decode(header, out) ? 0 : -EBADMSG;
}

static struct wal_file *file_new(uint32_t number, uint32_t bytes, int fd, int64_t size)
{
    struct wal_file *file = calloc(1, sizeof *file);

    if (file)
        *file = (struct wal_file){.number = number,
                                  .bytes = bytes,
                                  .fd = fd,
                                  .size = size,
                                  .stamp = {.bytes = -1},
                                  .end = WAL_HEADER_BYTES};
    return file;
}

static int open_one(const struct wal_disk *disk, uint32_t number, int flags, struct wal_file **out,
                    char *error, size_t error_bytes)
{
    const struct fs *fs = disk->fs;
    char name[32], path[PATH_MAX], header[WAL_HEADER_BYTES];
    struct wal_file_about about;
    const char *why;
    int64_t size;
    int fd;

    wal_file_name(number, name);
    wal_path(disk, name, path);
    fd = open_named(disk, name, flags, header, &size);
    if (fd < 0)
        return wal_complain(error, error_bytes, fd, "cannot read log file '%s': %s", path,
                            strerror(-fd));
    why = check_header(disk, header, number, size, &about);
    if (why) {
        fs->ops->close(fs->ctx, fd);
        return wal_complain(error, error_bytes, -EBADMSG,
                            "log file '%s' is damaged at byte 0: %s; restore it from a backup "
                            "(nothing was changed)",
                            path, why);
    }
    *out = file_new(number, about.bytes, fd, size);
    if (*out)
        return 0;
    fs->ops->close(fs->ctx, fd);
    return wal_complain(error, error_bytes, -ENOMEM, "out of memory");
}

/* ---- opening all files ---- */

struct listing {
    uint32_t first, newest, count; /* newest number and count of the files from `first` on */
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

int wal_files_open(const struct wal_disk *disk, uint32_t first, uint32_t newest, int flags,
                   struct wal_files *files, char *error, size_t error_bytes)
{
    struct listing listing = {.first = first, .newest = newest};
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

/* ---- opening for salvage ---- */

VECTOR_DECLARE(log_numbers, uint32_t)

struct names {
    struct log_numbers numbers;
    bool has_failed; /* out of memory */
};

static void note_number(void *ctx, const char *name)
{
    struct names *names = ctx;
    const uint32_t number = wal_file_number(name);

    if (number && !log_numbers_add(&names->numbers, number))
        names->has_failed = true;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

    return (one > other) - (one < other);
}

/* Returns whether the file contains a batch that was written for this file number. Unreadable parts
 * are skipped. */
static bool has_batch_of(const struct wal_disk *disk, int fd, int64_t size, uint32_t number)
{
    enum { CHUNK_BYTES = 65536 };
    const uint64_t magic = wal_head_magic();
    char *chunk = malloc(CHUNK_BYTES);
    struct wal_head head;
    bool found = false;

    for (int64_t at = WAL_HEADER_BYTES; chunk && !found && at < size;) {
        const ssize_t got = fs_pread_some(disk->fs, fd, true, chunk, CHUNK_BYTES, at);

        for (ssize_t i = 0; !found && i + WAL_HEAD_BYTES <= got; i += WAL_ALIGN)
            found = memcmp(chunk + i, &magic, sizeof magic) == 0 &&
                    wal_head_decode(disk, number, (uint32_t)(at + i), chunk + i, &head);
        at += CHUNK_BYTES - WAL_HEAD_BYTES; /* a multiple of WAL_ALIGN */
    }
    free(chunk);
    return found;
}

/* Returns the number for which the file's batches were written, or 0 if it has no batches. First
 * tries its name, then the numbers of all existing files, and of one that may be missing at each
 * end. */
static uint32_t guess_number(const struct wal_disk *disk, int fd, int64_t size, uint32_t name,
                             const struct log_numbers *numbers)
{
    const uint32_t last = numbers->at[numbers->count - 1] + 1;

    if (has_batch_of(disk, fd, size, name))
        return name;
    for (uint32_t number = numbers->at[0] > 1 ? numbers->at[0] - 1 : 1;
         number <= last && number - numbers->at[0] + 1 < numbers->count * 2 + 8; number++)
        if (number != name && has_batch_of(disk, fd, size, number))
            return number;
    return 0;
}

/* Inserts the file by number. If the number already exists, drops the new file. */
static int add_sorted(const struct wal_disk *disk, struct wal_files *files, struct wal_file *file)
{
    uint32_t at;

    if (wal_files_search(files, file->number)) {
        close_file(disk, file);
        return 0;
    }
    if (!wal_files_add(files, file)) {
        close_file(disk, file);
        return -ENOMEM;
    }
    for (at = files->count - 1; at > 0 && files->at[at - 1]->number > file->number; at--)
        files->at[at] = files->at[at - 1];
    files->at[at] = file;
    return 0;
}

/* Opens a file for salvage. `is_named`: in the first round only files that match their names are
 * added, in the second round the others. */
static int open_any(const struct wal_disk *disk, const struct log_numbers *numbers, uint32_t name,
                    uint32_t first, bool is_named, struct wal_files *files)
{
    char text[32], header[WAL_HEADER_BYTES];
    struct wal_file_about about;
    struct wal_file *file;
    uint32_t number = name, bytes;
    int64_t size;
    int fd;

    wal_file_name(name, text);
    fd = open_named(disk, text, O_RDONLY, header, &size);
    if (fd < 0)
        return fd == -ENOMEM ? fd : 0;
    if (size > UINT32_MAX)
        size = UINT32_MAX;
    bytes = (uint32_t)size;
    if (!wal_file_header_decode(header, &about)) {
        number = guess_number(disk, fd, size, name, numbers);
    } else {
        number = about.seed == disk->seed ? about.number : 0;
        bytes = about.bytes < bytes ? about.bytes : bytes;
    }
    if (number < first || number == 0 || bytes <= WAL_HEADER_BYTES ||
        (number == name) != is_named) {
        disk->fs->ops->close(disk->fs->ctx, fd);
        return 0;
    }
    file = file_new(number, bytes, fd, size);
    if (file)
        return add_sorted(disk, files, file);
    disk->fs->ops->close(disk->fs->ctx, fd);
    return -ENOMEM;
}

int wal_files_open_any(const struct wal_disk *disk, uint32_t first, struct wal_files *files)
{
    struct names names = {0};
    int result = 0;

    (void)disk->fs->ops->list(disk->fs->ctx, disk->dir, note_number, &names);
    if (names.has_failed)
        result = -ENOMEM;
    if (names.numbers.count)
        qsort(names.numbers.at, names.numbers.count, sizeof *names.numbers.at, by_number);
    for (int round = 0; result == 0 && round < 2; round++)
        for (size_t i = 0; result == 0 && i < names.numbers.count; i++)
            result = open_any(disk, &names.numbers, names.numbers.at[i], first, round == 0, files);
    log_numbers_fini(&names.numbers);
    return result;
}

/* Opens a file in the directory of another log, if it belongs to this one. */
static int open_moved(const struct wal_disk *disk, const struct wal_disk *place, uint32_t name,
                      uint32_t first, struct wal_files *files)
{
    char text[32], header[WAL_HEADER_BYTES];
    struct wal_file_about about;
    struct wal_file *file;
    int64_t size;
    int fd;

    wal_file_name(name, text);
    fd = open_named(place, text, O_RDONLY, header, &size);
    if (fd < 0)
        return fd == -ENOMEM ? fd : 0;
    if (!wal_file_header_decode(header, &about) || about.seed != disk->seed ||
        !store_identity_equals(&about.identity, &disk->identity) || about.number < first ||
        size <= WAL_HEADER_BYTES) {
        disk->fs->ops->close(disk->fs->ctx, fd);
        return 0;
    }
    if (size < about.bytes)
        about.bytes = (uint32_t)size;
    file = file_new(about.number, about.bytes, fd, size);
    if (file)
        return add_sorted(disk, files, file);
    disk->fs->ops->close(disk->fs->ctx, fd);
    return -ENOMEM;
}

int wal_files_open_moved(const struct wal_disk *disk, const char *dir, uint32_t first,
                         struct wal_files *files)
{
    struct wal_disk place = *disk;
    struct names names = {0};
    int result = 0;

    snprintf(place.dir, sizeof place.dir, "%s", dir);
    (void)disk->fs->ops->list(disk->fs->ctx, dir, note_number, &names);
    if (names.has_failed)
        result = -ENOMEM;
    for (size_t i = 0; result == 0 && i < names.numbers.count; i++)
        result = open_moved(disk, &place, names.numbers.at[i], first, files);
    log_numbers_fini(&names.numbers);
    return result;
}

/* ---- creating ---- */

/* Returns whether the disk reports less space than `bytes`. */
static bool lacks_space(const struct fs *fs, int fd, uint32_t bytes)
{
    struct fs_room room;

    return fs->ops->room && fs->ops->room(fs->ctx, fd, &room) == 0 && room.free_bytes < bytes;
}

/* Writes zeros. Starts only if there is enough space, since a partial file would take space from
 * others. The last portion is not synced: the caller syncs it together with the header. */
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
        /* Syncs in small portions, so that commits do not wait for all of it. */
        if (result == 0 && unsynced >= FILL_SYNC_BYTES && at < bytes) {
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
 * Creates a file. It gets its header and is synced under a name that does not count (a temporary
 * one, or one older than the manifest's first), and only then its own name: a file with a name that
 * counts is always complete.
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
        /* Without a descriptor no sync was tried: the next attempt makes the name
         * again. */
        *is_fatal = is_named && result < 0 && result != -EMFILE && result != -ENFILE;
    } else if (fd >= 0) {
        (void)fs->ops->unlink(fs->ctx,
                              from); /* its pages cannot be trusted, or its space is needed */
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
                              .size = bytes,
                              .stamp = fs_stamp(fs, fd),
                              .end = WAL_HEADER_BYTES};
    *out = file;
    return 0;
}
