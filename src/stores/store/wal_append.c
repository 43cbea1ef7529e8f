/* The open batch of the log, sealing and committing it; the buffers of batches, which are kept for
 * reading after they were written (wal.h). */
#include "store/wal_private.h"

#include "base/large.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH_BYTES_FIRST = 4096,
    SPARE_BYTES_MAX = 8 << 20,
    /* Larger batches are not copied, because readers would wait for the lock. */
    COPIED_BYTES_MAX = 256 << 10,
    /* memory of a written batch beside its struct and bytes: its place in the ring, and what malloc
     * adds to two blocks */
    OVERHEAD_BYTES = 64,
    LATE_CHECK_BYTES = 32 << 10 /* the check of a record from this size on is made by the commit */
};

/* Reserves room for `bytes` more in a batch's buffer. Returns false if out of memory. */
static bool wal_batch_reserve(struct wal_batch *batch, size_t bytes, size_t bytes_max)
{
    size_t need = batch->len + bytes, cap = batch->cap ? batch->cap : BATCH_BYTES_FIRST;
    char *at;

    if (need <= batch->cap)
        return true;
    while (cap < need)
        cap *= 2;
    if (cap > bytes_max && need <= bytes_max)
        cap = bytes_max;
    at = large_grow(batch->at, batch->cap, cap);
    if (!at)
        return false;
    batch->at = at;
    batch->cap = cap;
    return true;
}

static bool is_copy(const struct wal_batch *batch)
{
    return batch->at == batch->copied;
}

void wal_batch_free(struct wal_batch *batch)
{
    if (batch && !is_copy(batch))
        large_free(batch->at, batch->cap);
    free(batch);
}

/* Returns an empty batch, or NULL if out of memory. */
static struct wal_batch *wal_recent_take(struct wal_recent *recent)
{
    struct wal_batch *batch = recent->spare;

    recent->spare = NULL;
    if (!batch)
        return calloc(1, sizeof *batch);
    batch->len = 0;
    batch->count = 0;
    batch->has_late_checks = false;
    batch->file = 0; /* no place yet */
    return batch;
}

/* Keeps the batch as the next empty one, or frees it. A copy cannot grow, so it is freed. */
static void give_up(struct wal_recent *recent, struct wal_batch *batch)
{
    if (recent->spare || batch->cap > SPARE_BYTES_MAX || is_copy(batch))
        wal_batch_free(batch);
    else
        recent->spare = batch;
}

static bool grow(struct wal_recent *recent)
{
    uint32_t cap = recent->cap ? recent->cap * 2 : 64;
    struct wal_batch **ring = malloc(cap * sizeof *ring);

    if (!ring)
        return false;
    for (uint32_t i = 0; i < recent->count; i++)
        ring[i] = recent->ring[(recent->head + i) & (recent->cap - 1)];
    free(recent->ring);
    recent->ring = ring;
    recent->cap = cap;
    recent->head = 0;
    return true;
}

static struct wal_batch *nth(const struct wal_recent *recent, uint32_t index)
{
    return recent->ring[(recent->head + index) & (recent->cap - 1)];
}

/* Returns a copy of the batch in one block of memory without unused room; the next batch gets the
 * memory of the original. Returns the batch itself if out of memory. */
static struct wal_batch *copied(struct wal_recent *recent, struct wal_batch *batch)
{
    struct wal_batch *copy = malloc(sizeof *copy + batch->len);

    if (!copy)
        return batch;
    *copy = *batch;
    copy->at = copy->copied;
    copy->cap = batch->len;
    memcpy(copy->at, batch->at, batch->len);
    give_up(recent, batch);
    return copy;
}

/* Frees unused room of a batch, because the room for the largest commands would displace other
 * batches. Of the returned batch, at least a quarter is in use unless memory is short. */
static struct wal_batch *fitted(struct wal_recent *recent, struct wal_batch *batch)
{
    size_t kept = batch->len > LARGE_BYTES ? batch->len : LARGE_BYTES;

    if (batch->len < batch->cap / 4 && batch->len <= COPIED_BYTES_MAX)
        return copied(recent, batch);
    if (batch->len < batch->cap / 2 && kept < batch->cap) {
        large_shrink(batch->at, batch->cap, kept);
        batch->cap = kept;
    }
    return batch;
}

/* Returns the memory of a written batch. */
static size_t memory_of(const struct wal_batch *batch)
{
    return batch->cap + sizeof *batch + OVERHEAD_BYTES;
}

static void drop_oldest(struct wal_recent *recent)
{
    struct wal_batch *oldest = nth(recent, 0);

    recent->head = (recent->head + 1) & (recent->cap - 1);
    recent->count--;
    recent->bytes -= memory_of(oldest);
    give_up(recent, oldest);
}

/* Adds a written batch and drops the oldest ones above the limits. The number of batches is limited
 * because a large one displaces many small ones in one step of the owner. A batch that is not added
 * can be read from its file. */
static void wal_recent_add(struct wal_recent *recent, struct wal_batch *batch, size_t bytes_max)
{
    batch = fitted(recent, batch);
    if (batch->cap > bytes_max) {
        give_up(recent, batch);
        return;
    }
    while (recent->count && (recent->count >= WAL_RECENT_BATCHES_MAX ||
                             recent->bytes + memory_of(batch) > bytes_max))
        drop_oldest(recent);
    if (recent->count == recent->cap && !grow(recent)) {
        give_up(recent, batch);
        return;
    }
    recent->ring[(recent->head + recent->count++) & (recent->cap - 1)] = batch;
    recent->bytes += memory_of(batch);
}

const struct wal_batch *wal_recent_find(const struct wal_recent *recent, struct record_place place)
{
    uint32_t low = 0, high = recent->count;

    /* Find the last batch that does not start after the place. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct wal_batch *batch = nth(recent, middle);

        if (batch->file < place.file || (batch->file == place.file && batch->offset <= place.at))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !wal_batch_has(nth(recent, low - 1), place))
        return NULL;
    return nth(recent, low - 1);
}

void wal_recent_fini(struct wal_recent *recent)
{
    for (uint32_t i = 0; i < recent->count; i++)
        wal_batch_free(nth(recent, i));
    wal_batch_free(recent->spare);
    free(recent->ring);
    *recent = (struct wal_recent){0};
}

/* Appending: batches are filled on the owner's thread, and written and synced on the committer's
 * (wal.h). */

/* Returns the room that `bytes` of records may need in the batch, with a checksum after each; the
 * smallest bound of a record is far above 32 bytes. */
static size_t room_for(size_t bytes)
{
    return bytes + bytes / 8 + 16;
}

size_t wal_room_max(const struct wal *wal)
{
    size_t bytes = (wal->options.batch_bytes_max - WAL_HEAD_BYTES - 16) / 9 * 8;
    assert(room_for(bytes) + WAL_HEAD_BYTES <= wal->options.batch_bytes_max);
    return bytes;
}

static bool is_empty(const struct wal *wal)
{
    return !wal->open || wal->open->len == 0;
}

static size_t used_of_file(const struct wal *wal)
{
    return wal->tail_at + (is_empty(wal) ? 0 : wal->open->len);
}

static int wait_for_file(const struct wal *wal)
{
    return wal->stuck ? wal->stuck : -EAGAIN;
}

/* Reserves memory in the open batch. The helper may be reading from it, so its memory moves only
 * under the lock. */
static bool reserve(struct wal *wal, size_t bytes)
{
    bool done;

    if (wal->open && wal->open->cap - wal->open->len >= bytes)
        return true;
    pthread_mutex_lock(&wal->lock);
    if (!wal->open)
        wal->open = wal_recent_take(&wal->recent);
    done = wal->open && wal_batch_reserve(wal->open, bytes, wal->options.batch_bytes_max);
    pthread_mutex_unlock(&wal->lock);
    return done;
}

int wal_has_room(struct wal *wal, size_t bytes, enum wal_need need)
{
    const struct wal_file *file = wal_current(wal);
    size_t room = room_for(bytes), used = used_of_file(wal);
    bool ready = wal_next_is_ready(wal);

    if (wal->is_broken)
        return -EIO;
    if (room + WAL_HEAD_BYTES > wal->options.batch_bytes_max)
        return -EMSGSIZE;
    if (need == WAL_FOR_PUSH && !ready &&
        used + room + file->bytes / 100 * WAL_RESERVE_PERCENT > file->bytes)
        return wait_for_file(wal);
    if (!is_empty(wal)) {
        if (wal->open->len + room > wal->options.batch_bytes_max || used + room > file->bytes)
            return -EAGAIN;
    } else {
        room += WAL_HEAD_BYTES;
        if (used + room > file->bytes && !ready)
            return wait_for_file(wal);
        wal->first_room = room;
    }
    return reserve(wal, room) ? 0 : -ENOMEM;
}

static void begin_file(struct wal *wal)
{
    assert(wal_next_is_ready(wal));
    pthread_mutex_lock(&wal->lock);
    wal->current++;
    wal_current(wal)->first_sequence = wal->next_sequence;
    pthread_mutex_unlock(&wal->lock);
    wal->tail_at = WAL_HEADER_BYTES;
}

/* Begins a batch. The lock is needed because the helper may read the batch's place in wal_read. */
static void begin_batch(struct wal *wal)
{
    if (wal->tail_at + wal->first_room > wal_current(wal)->bytes)
        begin_file(wal);
    pthread_mutex_lock(&wal->lock);
    wal->open->file = wal->current;
    wal->open->offset = wal->tail_at;
    pthread_mutex_unlock(&wal->lock);
    wal->open->len = WAL_HEAD_BYTES;
    wal->open->count = 0;
}

struct record_place wal_append(struct wal *wal, const struct record *record)
{
    struct wal_batch *batch = wal->open;
    struct record_place place;
    char *at;
    size_t check_bytes, room = record_bytes_max(record) + WAL_CHECK_BYTES;

    assert(batch && "wal_has_room comes first");
    if (batch->len == 0)
        begin_batch(wal);
    assert(batch->len + room <= batch->cap && "wal_has_room comes first");
    place.file = batch->file;
    place.at = batch->offset + (uint32_t)batch->len;
    at = batch->at + batch->len;
    place.bytes = (uint32_t)record_encode(record, at);
    check_bytes = wal_check_bytes(slice_make(at, place.bytes));
    if (check_bytes && place.bytes >= LATE_CHECK_BYTES)
        batch->has_late_checks = true;
    else if (check_bytes)
        wal_check_put(&wal->disk, place.file, place.at, at, place.bytes);
    batch->len += place.bytes + check_bytes;
    batch->count++;
    assert(batch->offset + batch->len <= wal_current(wal)->bytes);
    return place;
}

uint64_t wal_open_sequence(const struct wal *wal)
{
    return wal->next_sequence;
}

bool wal_open_is_empty(const struct wal *wal)
{
    return is_empty(wal);
}

bool wal_is_committing(const struct wal *wal)
{
    return wal->running.is_under_way;
}

/* ---- committing ---- */

int64_t wal_sync_due_ms(const struct wal *wal)
{
    if (wal->is_broken || wal->dirty_first == 0 || wal->options.sync != WAL_SYNC_INTERVAL)
        return INT64_MAX;
    return wal->dirty_since_ms + wal->options.sync_interval_ms;
}

/* Returns the time for the interval of syncs. */
static int64_t elapsed_ms(const struct wal *wal)
{
    return wal->options.elapsed_ms ? wal->options.elapsed_ms()
                                   : wal->options.inner_ms(wal->options.clock);
}

static void seal_batch(struct wal *wal, int64_t now_ms)
{
    struct wal_batch *batch = wal->open;

    wal->running.head = (struct wal_head){
        .bytes = (uint32_t)batch->len,
        .count = batch->count,
        .epoch = wal->epoch,
        .sequence = wal->next_sequence,
        .synced_sequence = wal->synced,
        .inner_ms = wal->options.elapsed_ms ? wal->options.inner_ms(wal->options.clock) : now_ms,
        .wall_ms = wal->options.wall_ms(wal->options.clock),
    };

    pthread_mutex_lock(&wal->lock);
    wal->running.batch = batch;
    wal->open = NULL;
    pthread_mutex_unlock(&wal->lock);
    wal->next_sequence++;
    wal->tail_at = wal_aligned(batch->offset + (uint32_t)batch->len);
    if (wal->dirty_first == 0) {
        wal->dirty_first = batch->file;
        wal->dirty_since_ms = now_ms;
    }
}

static bool seal(struct wal *wal, bool sync_now)
{
    bool has_batch = !is_empty(wal), wants_sync;
    int64_t now_ms;

    if (wal->running.is_under_way || wal->is_broken)
        return false;
    if (!has_batch && !sync_now && wal_sync_due_ms(wal) == INT64_MAX)
        return false;
    now_ms = elapsed_ms(wal);
    wants_sync = sync_now || (has_batch && wal->options.sync == WAL_SYNC_ALWAYS) ||
                 wal_sync_due_ms(wal) <= now_ms;
    if (!has_batch && !wants_sync)
        return false;
    /* its batch is set under the lock, because the helper may read it */
    wal->running.is_under_way = true;
    wal->running.wants_sync = wants_sync;
    wal->running.result = 0;
    if (has_batch)
        seal_batch(wal, now_ms);
    wal->running.sequence = wal->next_sequence - 1;
    wal->running.sync_first = wal->dirty_first;
    wal->running.sync_last = wal->running.batch ? wal->running.batch->file : wal->current;
    return true;
}

bool wal_seal(struct wal *wal)
{
    return seal(wal, false);
}

bool wal_seal_sync(struct wal *wal)
{
    return wal->dirty_first || !is_empty(wal) ? seal(wal, true) : false;
}

/* Returns a file. Files with unsynced writes are never dropped, so the table contains them. */
static struct wal_file *find_file(struct wal *wal, uint32_t number)
{
    struct wal_file *file;

    pthread_mutex_lock(&wal->lock);
    file = wal_files_find(&wal->files, number);
    pthread_mutex_unlock(&wal->lock);
    return file;
}

static int sync_file(struct wal *wal, uint32_t number)
{
    return wal->disk.fs->ops->fdatasync(wal->disk.fs->ctx, find_file(wal, number)->fd);
}

/* Makes the checks of large records. Reads from RAM do not use them, so the owner may read
 * meanwhile. Returns 0, or -EBADMSG if the batch is damaged. */
static int put_late_checks(const struct wal_disk *disk, const struct wal_batch *batch)
{
    struct slice records = slice_make(batch->at + WAL_HEAD_BYTES, batch->len - WAL_HEAD_BYTES);
    struct slice record;
    size_t at = 0;
    int result;

    while ((result = wal_record_next(records, &at, &record)) == 1) {
        size_t from = (size_t)(record.at - batch->at);

        if (record.len >= LATE_CHECK_BYTES && wal_check_bytes(record))
            wal_check_put(disk, batch->file, batch->offset + (uint32_t)from, batch->at + from,
                          record.len);
    }
    return result;
}

/* Completes the batch with its checksums. They take long for a large batch, so the owner's thread
 * does not make them. Returns 0, or -EBADMSG if the batch is damaged. */
static int finish_batch(struct wal *wal, struct wal_running_commit *running)
{
    const struct wal_batch *batch = running->batch;
    int result = batch->has_late_checks ? put_late_checks(&wal->disk, batch) : 0;

    if (result == 0)
        wal_head_encode(&wal->disk, batch->file, batch->offset, &running->head, batch->at);
    return result;
}

/* Writes the batch. Returns -ESTALE if another program has written to the file, for example a copy
 * that was put over it: then its contents are not the ones that this log continues. */
static int write_batch(struct wal *wal, const struct wal_batch *batch)
{
    const struct fs *fs = wal->disk.fs;
    struct wal_file *file = find_file(wal, batch->file);
    int result;

    if (!fs_has_stamp(fs, file->fd, &file->stamp))
        return -ESTALE;
    result = fs_pwrite_whole(fs, file->fd, batch->at, batch->len, batch->offset);
    if (result < 0)
        return result;
    fs_stamp_renew(fs, file->fd, &file->stamp);
    return file->stamp.bytes < 0 || file->stamp.bytes == file->bytes ? 0 : -ESTALE;
}

/* Returns whether the next opening would find this file. */
static bool file_leads(struct wal *wal, uint32_t number)
{
    char name[32], path[PATH_MAX];

    if (!wal->disk.fs->ops->leads)
        return true;
    wal_file_name(number, name);
    wal_path(&wal->disk, name, path);
    return fs_leads(wal->disk.fs, path, find_file(wal, number)->fd);
}

int wal_commit(struct wal *wal)
{
    struct wal_running_commit *running = &wal->running;

    if (!running->is_under_way || running->result < 0)
        return running->result;
    if (running->batch) {
        running->result = finish_batch(wal, running);
        if (running->result == 0)
            running->result = write_batch(wal, running->batch);
    }
    if (running->wants_sync)
        for (uint32_t number = running->sync_first;
             running->result == 0 && number <= running->sync_last; number++)
            running->result = sync_file(wal, number);
    if (running->result == 0)
        running->is_moved = !file_leads(wal, running->sync_last);
    return running->result;
}

static void wal_break(struct wal *wal, int result, const char *what)
{
    if (!wal->is_broken)
        snprintf(wal->error, sizeof wal->error,
                 "%s in '%s': %s; the log accepts no changes until a restart", what, wal->disk.dir,
                 strerror(-result));
    wal->is_broken = true;
}

uint64_t wal_committed(struct wal *wal)
{
    struct wal_running_commit *running = &wal->running;

    if (!running->is_under_way)
        return wal->committed;
    running->is_under_way = false;
    if (running->result < 0) {
        wal_break(wal, running->result,
                  running->result == -ESTALE ? "another process has written to the log"
                                             : "cannot write or sync the log");
        return wal->committed; /* the failed batch stays readable until the log is closed */
    }
    wal->committed = running->sequence;
    wal->is_moved = running->is_moved;
    if (running->batch) {
        wal->commits++;
        wal->bytes_written += running->batch->len;
        wal->records_written += running->batch->count;
        pthread_mutex_lock(&wal->lock);
        wal_recent_add(&wal->recent, running->batch, wal->options.recent_bytes_max);
        running->batch = NULL;
        pthread_mutex_unlock(&wal->lock);
    }
    if (running->wants_sync) {
        wal->syncs++;
        wal->synced = running->sequence;
        wal->dirty_first = 0;
        wal->dirty_since_ms = INT64_MAX;
    }
    return wal->committed;
}

bool wal_is_moved(const struct wal *wal)
{
    return wal->is_moved;
}

bool wal_look(struct wal *wal)
{
    wal->is_moved = !file_leads(wal, wal->current);
    return !wal->is_moved;
}

bool wal_leads(const struct wal *wal)
{
    return fs_leads(wal->disk.fs, wal->disk.dir, -1);
}
