#include "store/wal_private.h"

#include <errno.h>
#include <stdlib.h>

/* ---- one record ---- */

static bool read_from_ram(const struct wal *wal, struct record_place place, struct slice *out)
{
    const struct wal_batch *batch;

    if (wal_batch_has(wal->open, place))
        batch = wal->open;
    else if (wal_batch_has(wal->flight.batch, place))
        batch = wal->flight.batch;
    else
        batch = wal_recent_find(&wal->recent, place);
    if (!batch)
        return false;
    *out = slice_make(batch->at + (place.at - batch->offset), place.bytes);
    return true;
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
    if (!may_block && read_from_ram(wal, place, out))
        return 0;
    buffer_clear(scratch);
    into = buffer_reserve(scratch, bytes);
    if (!into)
        return -ENOMEM;
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

/* ---- all records of a file ---- */

static int each_record(struct slice records, uint32_t file, uint32_t at,
                       void (*each)(void *ctx, const struct record *record,
                                    struct record_place place),
                       void *ctx)
{
    size_t offset = 0;
    struct slice bytes;
    int result;

    while ((result = wal_record_next(records, &offset, &bytes)) == 1) {
        struct record_place place = {.file = file,
                                     .at = at + (uint32_t)(bytes.at - records.at),
                                     .bytes = (uint32_t)bytes.len};
        struct record record;

        if (!record_decode(bytes, &record))
            return -EIO;
        each(ctx, &record, place);
    }
    return result < 0 ? -EIO : 0;
}

/* The batch at `at` into scratch: its size, or negative errno. */
static int64_t scan_batch(struct wal *wal, const struct wal_file *file, uint32_t at,
                          struct buffer *scratch, struct wal_head *head)
{
    char bytes[WAL_HEAD_BYTES], *into;
    ssize_t got = wal_pread(wal->disk.fs, file->fd, bytes, sizeof bytes, at);

    if (got < 0)
        return got;
    if (got < WAL_HEAD_BYTES || !wal_head_decode(&wal->disk, file->number, at, bytes, head) ||
        head->bytes > file->bytes - at)
        return -EIO;
    buffer_clear(scratch);
    into = buffer_reserve(scratch, head->bytes);
    if (!into)
        return -ENOMEM;
    got = wal_pread(wal->disk.fs, file->fd, into, head->bytes, at);
    if (got < 0)
        return got;
    if (got < head->bytes || !wal_body_is_whole(&wal->disk, head, into))
        return -EIO;
    scratch->len = head->bytes;
    return head->bytes;
}

int wal_scan(struct wal *wal, uint32_t number, uint32_t *at, size_t bytes_max,
             struct buffer *scratch,
             void (*each)(void *ctx, const struct record *record, struct record_place place),
             void *ctx)
{
    struct wal_file *file = pin(wal, number);
    uint32_t from = *at ? *at : WAL_HEADER_BYTES, end;
    size_t done = 0;
    int result = 0;

    if (!file)
        return -ENOENT;
    pthread_mutex_lock(&wal->lock);
    end = file->end; /* a newer file was begun, so it is final */
    assert(number < wal->current);
    pthread_mutex_unlock(&wal->lock);
    while (result == 0 && from < end && done < bytes_max) {
        struct wal_head head;
        int64_t bytes = scan_batch(wal, file, from, scratch, &head);

        result =
            bytes < 0
                ? (int)bytes
                : each_record(slice_make(scratch->at + WAL_HEAD_BYTES, head.bytes - WAL_HEAD_BYTES),
                              number, from + WAL_HEAD_BYTES, each, ctx);
        if (result == 0) {
            done += head.bytes;
            from = wal_aligned(from + head.bytes);
        }
    }
    unpin(wal, file);
    *at = from;
    return result < 0 ? result : from < end;
}
