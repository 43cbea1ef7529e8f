#include "store/wal_private.h"

#include <errno.h>
#include <stdlib.h>

/* ---- one record ---- */

/* A place in the open batch is told by where that begins: its length is the owner's to change at
 * any time. */
static bool find_in_ram(const struct wal *wal, struct record_place place, struct slice *out)
{
    const struct wal_batch *batch = wal->open;

    if (!batch || batch->file != place.file || place.at < batch->offset + WAL_HEAD_BYTES) {
        batch = wal->flight.batch;
        if (!batch || !wal_batch_has(batch, place))
            batch = wal_recent_find(&wal->recent, place);
    }
    if (!batch)
        return false;
    *out = slice_make(batch->at + (place.at - batch->offset), place.bytes);
    return true;
}

static bool copy_from_ram(struct wal *wal, struct record_place place, char *into)
{
    struct slice record;
    bool found;

    pthread_mutex_lock(&wal->lock);
    found = find_in_ram(wal, place, &record);
    if (found)
        memcpy(into, record.at, record.len);
    pthread_mutex_unlock(&wal->lock);
    return found;
}

static ssize_t read_from_cache(const struct wal *wal, struct record_place place, char *into,
                               size_t bytes)
{
    const struct fs *fs = wal->disk.fs;
    const struct wal_file *file = wal_files_find(&wal->files, place.file);
    ssize_t got;

    if (!file)
        return -ENOENT;
    got = fs->ops->pread_cached(fs->ctx, file->fd, into, bytes, place.at);
    return got >= 0 && (size_t)got < bytes ? -EAGAIN : got;
}

/* The file stays, and stays open, while it is pinned. NULL: it is gone. */
static struct wal_file *pin(struct wal *wal, uint32_t number)
{
    struct wal_file *file;

    pthread_mutex_lock(&wal->lock);
    file = wal_files_find(&wal->files, number);
    if (file && file->is_gone)
        file = NULL;
    if (file)
        file->pins++;
    pthread_mutex_unlock(&wal->lock);
    return file;
}

static void unpin(struct wal *wal, struct wal_file *file)
{
    pthread_mutex_lock(&wal->lock);
    file->pins--;
    pthread_mutex_unlock(&wal->lock);
}

static ssize_t read_from_disk(struct wal *wal, struct record_place place, char *into, size_t bytes)
{
    struct wal_file *file = pin(wal, place.file);
    ssize_t got;

    if (!file)
        return -ENOENT;
    got = wal_pread(wal->disk.fs, file->fd, into, bytes, place.at);
    unpin(wal, file);
    return got;
}

int wal_read(struct wal *wal, struct record_place place, bool may_block, struct buffer *scratch,
             struct slice *out)
{
    size_t bytes = (size_t)place.bytes + WAL_CHECK_BYTES;
    ssize_t got;
    char *into;

    assert(place.bytes && place.at >= WAL_HEADER_BYTES);
    if (!may_block && find_in_ram(wal, place, out))
        return 0;
    buffer_clear(scratch);
    into = buffer_reserve(scratch, bytes);
    if (!into)
        return -ENOMEM;
    if (may_block && copy_from_ram(wal, place, into)) {
        scratch->len += place.bytes;
        *out = buffer_slice(scratch);
        return 0;
    }
    got = may_block ? read_from_disk(wal, place, into, bytes)
                    : read_from_cache(wal, place, into, bytes);
    if (got < 0)
        return (int)got;
    if ((size_t)got < bytes || !wal_check_holds(&wal->disk, place, into))
        return -EIO;
    scratch->len += place.bytes;
    *out = buffer_slice(scratch);
    return 0;
}

/* ---- many records, in order ---- */

enum { WINDOW_BYTES = 512 << 10 };

static bool is_in_window(const struct wal_window *window, struct record_place place)
{
    return window->file == place.file && place.at >= window->at &&
           place.at - window->at + (uint64_t)place.bytes + WAL_CHECK_BYTES <= window->len;
}

static int fill_window(struct wal *wal, struct record_place place, struct wal_window *window)
{
    struct wal_file *file;
    ssize_t got;

    window->len = 0;
    if (!window->bytes && !(window->bytes = malloc(WINDOW_BYTES)))
        return -ENOMEM;
    file = pin(wal, place.file);
    if (!file)
        return -ENOENT;
    got = wal_pread(wal->disk.fs, file->fd, window->bytes, WINDOW_BYTES, place.at);
    unpin(wal, file);
    if (got < 0)
        return (int)got;
    window->file = place.file;
    window->at = place.at;
    window->len = (uint32_t)got;
    return 0;
}

int wal_read_next(struct wal *wal, struct record_place place, struct wal_window *window,
                  struct buffer *scratch, struct slice *out)
{
    const char *at;

    if (!is_in_window(window, place) && place.bytes < WINDOW_BYTES / 4) {
        int failed = fill_window(wal, place, window);

        if (failed == -ENOMEM)
            return failed;
    }
    if (is_in_window(window, place)) {
        at = window->bytes + (place.at - window->at);
        if (wal_check_holds(&wal->disk, place, at)) {
            *out = slice_make(at, place.bytes);
            return 0;
        }
    }
    return wal_read(wal, place, true, scratch, out); /* large, or still on its way to the disk */
}

void wal_window_fini(struct wal_window *window)
{
    free(window->bytes);
    *window = (struct wal_window){0};
}

/* ---- all records of a file ---- */

struct scan_each {
    void (*call)(void *ctx, const struct record *record, struct record_place place);
    void *ctx;
};

static int each_record(struct slice records, const struct wal_file *file, uint32_t at,
                       struct scan_each each)
{
    size_t offset = 0;
    struct slice bytes;
    int result;

    while ((result = wal_record_next(records, file->format, &offset, &bytes)) == 1) {
        struct record_place place = {.file = file->number,
                                     .at = at + (uint32_t)(bytes.at - records.at),
                                     .bytes = (uint32_t)bytes.len};
        struct record record;

        if (!record_decode(bytes, &record))
            return -EIO;
        each.call(each.ctx, &record, place);
    }
    return result < 0 ? -EIO : 0;
}

/* The head of the batch at `at`, to be read into room that stays where it is. */
static int scan_head(struct wal *wal, const struct wal_file *file, uint32_t at,
                     struct wal_head *head)
{
    char bytes[WAL_HEAD_BYTES];
    ssize_t got = wal_pread(wal->disk.fs, file->fd, bytes, sizeof bytes, at);

    if (got < 0)
        return (int)got;
    if (got < WAL_HEAD_BYTES || !wal_head_decode(&wal->disk, file->number, at, bytes, head) ||
        head->bytes > file->bytes - at)
        return -EIO;
    return 0;
}

/* That batch behind what scratch holds already. */
static int scan_batch(struct wal *wal, const struct wal_file *file, uint32_t at,
                      const struct wal_head *head, struct buffer *scratch, struct scan_each each)
{
    char *into = scratch->at + scratch->len;
    ssize_t got = wal_pread(wal->disk.fs, file->fd, into, head->bytes, at);

    if (got < 0)
        return (int)got;
    if (got < head->bytes || !wal_body_is_whole(&wal->disk, head, into))
        return -EIO;
    scratch->len += head->bytes;
    return each_record(slice_make(into + WAL_HEAD_BYTES, head->bytes - WAL_HEAD_BYTES), file,
                       at + WAL_HEAD_BYTES, each);
}

static int scan(struct wal *wal, const struct wal_file *file, uint32_t end, uint32_t *at,
                size_t bytes_max, struct buffer *scratch, struct scan_each each)
{
    struct wal_head head;
    int result = 0;

    buffer_clear(scratch);
    while (*at < end) {
        result = scan_head(wal, file, *at, &head);
        if (result < 0)
            break;
        if (scratch->len == 0 &&
            !buffer_reserve(scratch, head.bytes > bytes_max ? head.bytes : bytes_max)) {
            result = -ENOMEM;
            break;
        }
        if (head.bytes > scratch->cap - scratch->len)
            break;
        result = scan_batch(wal, file, *at, &head, scratch, each);
        if (result < 0)
            break;
        *at = wal_aligned(*at + head.bytes);
    }
    return result < 0 ? result : *at < end;
}

int wal_scan(struct wal *wal, uint32_t number, uint32_t *at, size_t bytes_max,
             struct buffer *scratch,
             void (*each)(void *ctx, const struct record *record, struct record_place place),
             void *ctx)
{
    struct wal_file *file = pin(wal, number);
    uint32_t end;
    int result;

    if (!file)
        return -ENOENT;
    pthread_mutex_lock(&wal->lock);
    assert(number < wal->current);
    end = file->end; /* a newer file was begun, so it is final */
    pthread_mutex_unlock(&wal->lock);
    if (*at == 0)
        *at = WAL_HEADER_BYTES;
    result = scan(wal, file, end, at, bytes_max, scratch, (struct scan_each){each, ctx});
    unpin(wal, file);
    return result;
}
