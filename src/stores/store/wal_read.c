/* Reading records from RAM and disk (wal.h). */
#include "store/wal_private.h"

#include <errno.h>
#include <stdlib.h>

/* ---- one record ---- */

/* Finds a record in RAM. Compares the place only with the start of the open batch: its owner changes
 * its length without the lock, and no later batch exists. */
static bool find_in_ram(const struct wal *wal, struct record_place place, struct slice *out)
{
    const struct wal_batch *batch = wal->open;

    if (!batch || batch->file != place.file || place.at < batch->offset + WAL_HEAD_BYTES) {
        batch = wal->running.batch;
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

/* Pins a file, so that it exists and stays open. Returns NULL if it was dropped. */
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
    got = fs_pread_some(wal->disk.fs, file->fd, true, into, bytes, place.at);
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

/* Larger records are read separately: of a window, too little would remain for the records behind them. */
enum { WINDOW_BYTES = 512 << 10, WINDOWED_RECORD_BYTES_MAX = WINDOW_BYTES / 4 };

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
    got = fs_pread_some(wal->disk.fs, file->fd, true, window->bytes, WINDOW_BYTES, place.at);
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

    if (!is_in_window(window, place) && place.bytes < WINDOWED_RECORD_BYTES_MAX) {
        int result = fill_window(wal, place, window);

        if (result == -ENOMEM)
            return result;
    }
    if (is_in_window(window, place)) {
        at = window->bytes + (place.at - window->at);
        if (wal_check_holds(&wal->disk, place, at)) {
            *out = slice_make(at, place.bytes);
            return 0;
        }
    }
    /* The record is large, in RAM only, or unreadable: wal_read reports why. */
    return wal_read(wal, place, true, scratch, out);
}

void wal_window_fini(struct wal_window *window)
{
    free(window->bytes);
    *window = (struct wal_window){0};
}
