/* Opening of a log: recovery, and removal of unneeded files; closing. */
#include "store/wal_private.h"

#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct old {
    uint32_t below, newest; /* newest: of those below `below`; 0: not found */
};

static void note_old(void *ctx, const char *name)
{
    struct old *old = ctx;
    uint32_t number = wal_file_number(name);

    if (number && number < old->below && number > old->newest)
        old->newest = number;
}

static bool is_of_size(const struct wal *wal, uint32_t number)
{
    const struct fs *fs = wal->disk.fs;
    char name[32], path[PATH_MAX];
    int64_t size;
    int fd;

    wal_file_name(number, name);
    wal_path(&wal->disk, name, path);
    fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
    if (fd < 0)
        return false;
    size = fs->ops->size(fs->ctx, fd);
    fs->ops->close(fs->ctx, fd);
    return size == wal->options.file_bytes;
}

/* Handles files older than the first: keeps the newest ones of the right size for reuse, and
 * removes the others one at a time, because not every file system allows removal while listing. */
static int tidy_old(struct wal *wal)
{
    const struct fs *fs = wal->disk.fs;
    struct old old = {.below = wal->chore.manifest.first};
    int result;

    wal->chore.spare_count = 0;
    for (;;) {
        old.newest = 0;
        result = fs->ops->list(fs->ctx, wal->disk.dir, note_old, &old);
        if (result < 0 || old.newest == 0)
            return result;
        old.below = old.newest;
        if (wal->chore.spare_count < WAL_SPARES_MAX && is_of_size(wal, old.newest))
            wal->chore.spares[wal->chore.spare_count++] = old.newest;
        else if ((result = wal_file_unlink(&wal->disk, old.newest)) < 0)
            return result;
    }
}

/* Removes files after the tail, which were made ahead, if their size differs from the options,
 * newest first. */
static int tidy_ahead(struct wal *wal)
{
    int result = 0;

    while (result == 0 && wal_next_is_ready(wal) &&
           wal->files.at[wal->files.count - 1]->bytes != wal->options.file_bytes) {
        result = wal_file_unlink(&wal->disk, wal->files.at[wal->files.count - 1]->number);
        if (result == 0)
            result = wal->disk.fs->ops->fsync_dir(wal->disk.fs->ctx, wal->disk.dir);
        if (result == 0)
            wal_files_drop_last(&wal->disk, &wal->files);
    }
    return result;
}

/* Removes files that no longer count, except those kept for reuse. */
static int wal_tidy(struct wal *wal)
{
    int result = tidy_ahead(wal);

    return result < 0 ? result : tidy_old(wal);
}

enum {
    FILE_BYTES = 64 << 20,
    BATCH_BYTES = 24 << 20,
    RECENT_BYTES = 16 << 20,
    REWRITE_FILES = 2 /* at most the newest files */
};

struct opening {
    struct wal *wal;
    wal_replay *replay;
    void *ctx;
    struct wal_found *found;
    char *error;
    size_t error_bytes;
    struct wal_reader reader;
    struct wal_manifest read; /* the manifest as stored on disk */
    bool has_made_manifest;   /* here, so it is durable */
};

static int fail(struct opening *opening, int result, const char *what)
{
    return wal_complain(opening->error, opening->error_bytes, result, "%s in '%s': %s", what,
                        opening->wal->disk.dir, strerror(-result));
}

static void set_options(struct wal *wal, const struct wal_options *options)
{
    struct wal_options *mine = &wal->options;

    assert(options->fs && options->dir && options->inner_ms && options->wall_ms);
    assert(options->sync >= WAL_SYNC_ALWAYS && options->sync <= WAL_SYNC_NEVER);
    *mine = *options;
    mine->file_bytes =
        (mine->file_bytes ? mine->file_bytes : FILE_BYTES) & ~(uint32_t)(WAL_HEADER_BYTES - 1);
    if (mine->file_bytes < WAL_FILE_BYTES_MIN)
        mine->file_bytes = WAL_FILE_BYTES_MIN;
    if (mine->batch_bytes_max == 0)
        mine->batch_bytes_max = BATCH_BYTES;
    if (mine->batch_bytes_max > mine->file_bytes - WAL_HEADER_BYTES - WAL_ALIGN)
        mine->batch_bytes_max = mine->file_bytes - WAL_HEADER_BYTES - WAL_ALIGN;
    if (mine->recent_bytes_max == 0)
        mine->recent_bytes_max = RECENT_BYTES;
    wal->disk.fs = options->fs;
    wal->disk.identity = options->identity;
    wal->dirty_since_ms = INT64_MAX;
}

/* ---- the directory and its manifest ---- */

static bool name_dir(const char *dir, char *out, size_t out_bytes)
{
    return snprintf(out, out_bytes, "%s/wal", dir) < (int)out_bytes;
}

void wal_prepare_dir(const struct fs *fs, const char *dir)
{
    char path[PATH_MAX];

    if (fs->ops->mkdir(fs->ctx, dir, 0700) == 0 && name_dir(dir, path, sizeof path))
        (void)fs->ops->mkdir(fs->ctx, path, 0700);
}

static int make_dirs(struct opening *opening, const char *dir)
{
    struct wal_disk *disk = &opening->wal->disk;
    const struct fs *fs = disk->fs;
    char parent[PATH_MAX];
    char *slash;
    int result;

    if (!name_dir(dir, disk->dir, sizeof disk->dir))
        return wal_complain(opening->error, opening->error_bytes, -ENAMETOOLONG,
                            "the path '%s' is too long", dir);
    snprintf(parent, sizeof parent, "%s", dir);
    slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    result = fs->ops->mkdir(fs->ctx, dir, 0700);
    if (result == 0)
        result = fs->ops->fsync_dir(fs->ctx, slash ? parent : ".");
    if (result == 0)
        result = fs->ops->mkdir(fs->ctx, disk->dir, 0700);
    if (result == 0)
        result = fs->ops->fsync_dir(fs->ctx, dir);
    return result < 0 ? fail(opening, result, "cannot create the log's directory") : 0;
}

static void note_log(void *ctx, const char *name)
{
    if (wal_file_number(name))
        *(bool *)ctx = true;
}

static int make_manifest(struct opening *opening)
{
    struct wal *wal = opening->wal;
    const struct fs *fs = wal->disk.fs;
    bool has_files = false;
    int result = fs->ops->list(fs->ctx, wal->disk.dir, note_log, &has_files);

    if (result < 0)
        return fail(opening, result, "cannot list");
    if (has_files || wal->options.first)
        return wal_complain(opening->error, opening->error_bytes, -EBADMSG,
                            "'%s' has %s but no MANIFEST; restore it from a backup (nothing was "
                            "changed)",
                            wal->disk.dir, has_files ? "log files" : "runs beside it");
    if (wal->options.epoch_min)
        return wal_complain(opening->error, opening->error_bytes, -EBADMSG,
                            "the log in '%s' is missing, although it was opened before: put the "
                            "shard's files back, or restore a backup (nothing was changed)",
                            wal->disk.dir);
    opening->read = (struct wal_manifest){
        .identity = wal->options.identity,
        .seed = wal->options.seed ? wal->options.seed : random_u64(),
        .first = 1,
        .newest = 1,
        .first_sequence = 1,
        .epoch_sequence = 1,
    };
    result = wal_manifest_make(&wal->disk, &wal->chore.manifest_fd, &opening->read);
    wal->chore.manifest = opening->read;
    opening->has_made_manifest = true;
    return result < 0 ? fail(opening, result, "cannot write MANIFEST") : 0;
}

static int open_manifest(struct opening *opening)
{
    struct wal *wal = opening->wal;
    int result;

    /* A process that died may have left names that are not yet on disk. */
    result = wal->disk.fs->ops->fsync_dir(wal->disk.fs->ctx, wal->disk.dir);
    if (result < 0)
        return fail(opening, result, "cannot sync the log's directory");
    result = wal_manifest_open(&wal->disk, O_RDWR, &wal->chore.manifest_fd, &opening->read, NULL);

    if (result == -ENOENT)
        return make_manifest(opening);
    if (result == -EBADMSG)
        return wal_complain(
            opening->error, opening->error_bytes, result,
            "'%s/MANIFEST' is damaged; restore it from a backup (nothing was changed)",
            wal->disk.dir);
    if (result < 0)
        return fail(opening, result, "cannot read MANIFEST");
    wal->chore.manifest = opening->read;
    result = wal_manifest_reaches(&wal->disk, &wal->chore.manifest, wal->options.epoch_min,
                                  wal->options.synced_min, opening->error, opening->error_bytes);
    if (result < 0)
        return result;
    if (wal->options.is_alone && opening->read.has_runs)
        return wal_complain(opening->error, opening->error_bytes, -EBADMSG,
                            "the log in '%s' continues a catalog of runs that is missing; restore "
                            "both from one backup (nothing was changed)",
                            wal->disk.dir);
    if (wal->options.first == 0)
        return 0;
    return wal_manifest_begin_at(&wal->disk, &wal->chore.manifest, wal->options.first,
                                 wal->options.first_sequence, opening->error, opening->error_bytes);
}

/* Creates the first file if a crash came between the manifest and it. */
static int make_first(struct opening *opening)
{
    struct wal *wal = opening->wal;
    const uint32_t number = wal->chore.manifest.first;
    char path[PATH_MAX];
    struct wal_file *file;
    bool has_files = false, is_fatal;
    uint32_t first_bytes = wal->options.file_bytes < WAL_FIRST_FILE_BYTES ? wal->options.file_bytes
                                                                          : WAL_FIRST_FILE_BYTES;
    int result;

    wal_path(&wal->disk, "next.tmp", path);
    result = wal->disk.fs->ops->unlink(wal->disk.fs->ctx, path);
    if (result < 0 && result != -ENOENT)
        return fail(opening, result, "cannot remove next.tmp");
    if (wal->chore.manifest.epoch)
        return 0;
    result = wal->disk.fs->ops->list(wal->disk.fs->ctx, wal->disk.dir, note_log, &has_files);
    if (result == 0 && has_files)
        return 0;
    if (result == 0)
        result = wal_file_make(&wal->disk, number, first_bytes, 1, 0, &file, &is_fatal);
    if (result < 0)
        return fail(opening, result, "cannot create the first log file");
    wal->disk.fs->ops->close(wal->disk.fs->ctx, file->fd);
    free(file);
    return 0;
}

/* ---- replay ---- */

enum { LOT_RECORDS = 16 };

/* Consecutive records of a batch that are announced together before they are replayed. */
struct lot {
    struct record records[LOT_RECORDS];
    struct record_place places[LOT_RECORDS];
    size_t count;
    bool is_damaged; /* the next bytes are not a record */
};

static int complain_of(const struct opening *opening, struct record_place place, const char *why)
{
    return wal_complain(opening->error, opening->error_bytes, -EBADMSG,
                        "log file %" PRIu32 " in '%s': the record at byte %" PRIu32
                        " %s; restore it from a backup (nothing was changed)",
                        place.file, opening->wal->disk.dir, place.at, why);
}

/* Decodes the next records of the batch. Fewer than LOT_RECORDS: the batch has ended. */
static int fill_lot(const struct opening *opening, const struct wal_view *view, size_t *at,
                    struct lot *lot)
{
    struct slice bytes;
    int result;

    for (lot->count = 0; lot->count < LOT_RECORDS; lot->count++) {
        result = wal_record_next(view->records, at, &bytes);
        lot->is_damaged = result < 0;
        if (result != 1)
            return 0;
        lot->places[lot->count] = (struct record_place){
            .file = view->file,
            .at = view->at + WAL_HEAD_BYTES + (uint32_t)(bytes.at - view->records.at),
            .bytes = (uint32_t)bytes.len};
        if (!record_decode(bytes, &lot->records[lot->count]))
            return complain_of(opening, lot->places[lot->count], "cannot be decoded");
    }
    return 0;
}

static int replay_lot(const struct opening *opening, const struct lot *lot)
{
    wal_replay_soon *soon = opening->wal->options.replay_soon;

    if (!opening->replay)
        return 0;
    if (soon)
        soon(opening->ctx, lot->records, lot->count);
    for (size_t i = 0; i < lot->count; i++)
        if (!opening->replay(opening->ctx, &lot->records[i], lot->places[i]))
            return complain_of(opening, lot->places[i], "is impossible");
    return 0;
}

static int replay_batch(struct opening *opening, const struct wal_view *view)
{
    struct lot lot = {.count = LOT_RECORDS};
    size_t at = 0;
    uint32_t count = 0;

    while (lot.count == LOT_RECORDS) {
        int result = fill_lot(opening, view, &at, &lot);

        if (result == 0)
            result = replay_lot(opening, &lot);
        if (result < 0)
            return result;
        count += (uint32_t)lot.count;
    }
    if (lot.is_damaged || count != view->head.count)
        return wal_complain(
            opening->error, opening->error_bytes, -EBADMSG,
            "log file %" PRIu32 " in '%s': the batch at byte %" PRIu32
            " does not match its header; restore it from a backup (nothing was changed)",
            view->file, opening->wal->disk.dir, view->at);
    opening->found->batches++;
    opening->found->records += count;
    opening->found->bytes += view->head.bytes;
    return 0;
}

static int replay_all(struct opening *opening)
{
    struct wal *wal = opening->wal;
    struct wal_view view;
    int result;

    while ((result = wal_reader_next(&opening->reader, &view)) == 1) {
        wal->current = view.file;
        wal->next_sequence = view.head.sequence;
        result = replay_batch(opening, &view);
        if (result < 0)
            return result;
    }
    opening->found->last_inner_ms = opening->reader.last.inner_ms;
    opening->found->last_wall_ms = opening->reader.last.wall_ms;
    opening->found->torn_bytes = opening->reader.torn_bytes;
    return result;
}

/* ---- making the recovered state durable ---- */

/*
 * Rewrites batches that are not known to be synced, before they are synced: after a failed sync the
 * page cache may consider pages clean that never reached the disk, and syncing them again would
 * have no effect. This can only affect writes since the last successful sync, so the newest two
 * files are enough.
 */
static int rewrite(struct opening *opening, uint32_t index)
{
    struct wal *wal = opening->wal;
    const struct wal_file *file = wal->files.at[index];
    struct wal_view view;
    int result = 1;

    for (uint32_t at = WAL_HEADER_BYTES; at < file->end; at = wal_aligned(at + view.head.bytes)) {
        result = wal_reader_look(&opening->reader, index, at, &view);
        if (result == 0)
            result = -EIO;
        if (result > 0 && view.head.sequence > opening->reader.synced)
            result = fs_pwrite_whole(wal->disk.fs, file->fd, view.records.at - WAL_HEAD_BYTES,
                                     view.head.bytes, at);
        if (result < 0)
            return result;
    }
    return 0;
}

static int sync_tail(struct opening *opening)
{
    struct wal *wal = opening->wal;
    int result = 0;

    for (uint32_t i = 0; result == 0 && i <= opening->reader.index; i++) {
        const struct wal_file *file = wal->files.at[i];

        if (file->last_sequence <= opening->reader.synced)
            continue;
        if (i + REWRITE_FILES > opening->reader.index)
            result = rewrite(opening, i);
        if (result == 0)
            result = wal->disk.fs->ops->fdatasync(wal->disk.fs->ctx, file->fd);
    }
    return result < 0 ? fail(opening, result, "cannot write and sync the end of the log again") : 0;
}

/* Returns the newest file that wal_tidy keeps. */
static uint32_t newest_to_keep(const struct opening *opening)
{
    const struct wal *wal = opening->wal;
    uint32_t last = wal->files.count - 1;

    while (last > opening->reader.index && wal->files.at[last]->bytes != wal->options.file_bytes)
        last--;
    return wal->files.at[last]->number;
}

/* Truncates files to their size. Bytes beyond it are unused: they come from a copy or a file
 * system. */
static int cut_excess(struct opening *opening)
{
    const struct fs *fs = opening->wal->disk.fs;
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < opening->wal->files.count; i++) {
        struct wal_file *file = opening->wal->files.at[i];

        if (file->size == file->bytes)
            continue;
        result = fs->ops->truncate(fs->ctx, file->fd, file->bytes);
        file->size = file->bytes;
    }
    return result < 0 ? fail(opening, result, "cannot cut log files to their size") : 0;
}

/* Begins a new epoch. What was read of MANIFEST may not be on disk yet, unless it was made here. From now on batches that the crash left after the tail do not count. */
static int begin_epoch(struct opening *opening)
{
    struct wal *wal = opening->wal;
    struct wal_manifest *manifest = &wal->chore.manifest;
    const struct wal_reader *reader = &opening->reader;
    int result = opening->has_made_manifest
                     ? 0
                     : wal_manifest_settle(&wal->disk, wal->chore.manifest_fd, &opening->read);

    if (result < 0)
        return fail(opening, result, "cannot write MANIFEST");
    manifest->epoch = (manifest->epoch > reader->epoch ? manifest->epoch : reader->epoch) + 1;
    manifest->epoch_sequence = reader->expected;
    manifest->synced = reader->expected - 1;
    manifest->is_clean = false;
    manifest->newest = newest_to_keep(opening);
    result = wal_manifest_write(&wal->disk, wal->chore.manifest_fd, manifest);
    if (result < 0)
        return fail(opening, result, "cannot write MANIFEST");
    wal->epoch = manifest->epoch;
    wal->current = wal->files.at[reader->index]->number;
    wal->tail_at = reader->at;
    wal->next_sequence = reader->expected;
    wal->committed = wal->synced = reader->expected - 1;
    if (reader->last.bytes == 0) /* no batch in it yet */
        wal->files.at[reader->index]->first_sequence = reader->expected;
    opening->found->epoch = wal->epoch;
    return 0;
}

/* ---- opening and closing ---- */

/* Returns the newest file that must exist: 0 before the log's first opening, when the first file
 * may not exist yet. */
static uint32_t newest_made(const struct wal *wal)
{
    return wal->chore.manifest.epoch ? wal->chore.manifest.newest : 0;
}

static int recover(struct opening *opening, const char *dir)
{
    struct wal *wal = opening->wal;
    int result = make_dirs(opening, dir);

    if (result == 0)
        result = open_manifest(opening);
    if (result == 0)
        result = make_first(opening);
    if (result == 0)
        result = wal_files_open(&wal->disk, wal->chore.manifest.first, newest_made(wal), O_RDWR,
                                &wal->files, opening->error, opening->error_bytes);
    if (result == 0)
        result = wal_reader_init(&opening->reader, &wal->disk, &wal->chore.manifest, &wal->files,
                                 opening->error, opening->error_bytes);
    if (result < 0)
        return result;
    wal->shared.first_needed = wal->current = wal->chore.manifest.first;
    result = replay_all(opening);
    if (result == 0)
        result = cut_excess(opening);
    if (result == 0)
        result = sync_tail(opening);
    if (result == 0)
        result = begin_epoch(opening);
    if (result == 0) {
        result = wal_tidy(wal);
        if (result < 0)
            fail(opening, result, "cannot remove old log files");
    }
    if (result == 0)
        wal_current(wal)->stamp = fs_stamp(wal->disk.fs, wal_current(wal)->fd);
    return result;
}

static void destroy(struct wal *wal)
{
    const struct fs *fs = wal->disk.fs;

    if (wal->chore.made) {
        fs->ops->close(fs->ctx, wal->chore.made->fd);
        free(wal->chore.made);
    }
    if (wal->chore.manifest_fd >= 0)
        fs->ops->close(fs->ctx, wal->chore.manifest_fd);
    wal_files_fini(&wal->disk, &wal->files);
    wal_batch_free(wal->open);
    wal_batch_free(wal->running.batch);
    wal_recent_fini(&wal->recent);
    pthread_mutex_destroy(&wal->lock);
    free(wal);
}

int wal_open(const struct wal_options *options, wal_replay *replay, void *ctx, struct wal **out,
             struct wal_found *found, char *error, size_t error_bytes)
{
    struct wal_found ignored;
    struct opening opening = {
        .replay = replay, .ctx = ctx, .error = error, .error_bytes = error_bytes};
    int result;

    opening.found = found ? found : &ignored;
    *opening.found = (struct wal_found){0};
    *out = NULL;
    opening.wal = calloc(1, sizeof *opening.wal);
    if (!opening.wal)
        return wal_complain(error, error_bytes, -ENOMEM, "out of memory");
    opening.wal->chore.manifest_fd = -1;
    pthread_mutex_init(&opening.wal->lock, NULL);
    set_options(opening.wal, options);
    result = recover(&opening, options->dir);
    wal_reader_fini(&opening.reader);
    if (result < 0)
        destroy(opening.wal);
    else
        *out = opening.wal;
    return result;
}

/* Commits the sealed batch and the open batch, and syncs everything. */
static void commit_all(struct wal *wal)
{
    if (wal->running.is_under_way) {
        wal_commit(wal);
        wal_committed(wal);
    }
    if (wal_seal_sync(wal)) {
        wal_commit(wal);
        wal_committed(wal);
    }
}

void wal_close(struct wal *wal)
{
    if (!wal)
        return;
    commit_all(wal);
    if (!wal->is_broken && wal->synced == wal->next_sequence - 1) {
        wal->chore.manifest.synced = wal->synced;
        wal->chore.manifest.is_clean = true;
        (void)wal_manifest_write(&wal->disk, wal->chore.manifest_fd, &wal->chore.manifest);
    }
    destroy(wal);
}
