/* The space of a log: checkpoints, preparing files, figures; the files for a backup (wal.h). */
#include "store/wal_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the end of the log. A batch that is being written is not acknowledged yet, so the log
 * ends before it. */
static void end_of(const struct wal *wal, uint32_t *file, uint32_t *at)
{
    const struct wal_running_commit *running = &wal->running;

    *file = wal->current;
    *at = wal->tail_at;
    if (running->is_under_way && running->batch) {
        *file = running->batch->file;
        *at = running->batch->offset;
    }
}

uint32_t wal_extents(const struct wal *wal, struct wal_extent *out, uint32_t max)
{
    uint32_t last, end, count = 0;

    end_of(wal, &last, &end);
    for (uint32_t i = 0; i < wal->files.count && wal->files.at[i]->number <= last; i++, count++)
        if (count < max)
            out[count] = (struct wal_extent){
                .file = wal->files.at[i]->number,
                .bytes = wal->files.at[i]->number == last ? end : wal->files.at[i]->bytes,
                .file_bytes = wal->files.at[i]->bytes,
            };
    return count;
}

/* ---- checkpoints ---- */

uint32_t wal_checkpoint_before(const struct wal *wal, uint32_t files_min, uint32_t files_max)
{
    uint32_t files = wal->current - wal->shared.first_needed;

    assert(files_min <= files_max);
    if (files < files_min)
        return 0;
    return wal->shared.first_needed + (files < files_max ? files : files_max);
}

uint64_t wal_first_sequence(const struct wal *wal, uint32_t file)
{
    assert(file >= wal->shared.first_needed && file <= wal->current);
    return wal_files_find(&wal->files, file)->first_sequence;
}

/* Requires that the first batch of the log is durable, so that recovery may rely on it. */
void wal_checkpointed(struct wal *wal, uint32_t file)
{
    if (file <= wal->shared.first_needed)
        return;
    assert(wal_first_sequence(wal, file) <= wal->synced);
    pthread_mutex_lock(&wal->lock);
    wal->shared.first_needed = file;
    wal->shared.synced = wal->synced;
    pthread_mutex_unlock(&wal->lock);
}

uint64_t wal_synced(const struct wal *wal)
{
    return wal->synced;
}

uint64_t wal_epoch(const struct wal *wal)
{
    return wal->epoch;
}

uint64_t wal_committed_sequence(const struct wal *wal)
{
    return wal->committed;
}

uint32_t wal_current_file(const struct wal *wal)
{
    return wal->current;
}

void wal_hold_back(struct wal *wal, bool on)
{
    assert(on || wal->held);
    if (on)
        wal->held++;
    else
        wal->held--;
}

/* ---- upkeep ---- */

static bool has_too_many_spares(const struct wal_chore *chore)
{
    return !chore->is_held && chore->spare_count > chore->spares_wanted;
}

bool wal_wants_upkeep(struct wal *wal)
{
    uint32_t oldest = wal->files.at[0]->number;

    wal->chore.is_held = wal->held;
    wal->chore.synced = wal->synced;
    wal->chore.first_needed = wal->held ? oldest : wal->shared.first_needed;
    wal->chore.spares_wanted = wal->spares_unwanted ? 0 : WAL_SPARES_MAX;
    return !wal->is_broken && (!wal_next_is_ready(wal) || wal->chore.first_needed > oldest ||
                               has_too_many_spares(&wal->chore));
}

void wal_want_spares(struct wal *wal, bool on)
{
    wal->spares_unwanted = !on;
}

/* Determines which files from `first` on may be dropped now. Pinned files and those after them
 * wait. Marks the files, so that no new reads of them begin. */
static void plan(struct wal *wal, uint32_t *first, uint32_t *newest, bool *next_is_ready)
{
    struct wal_chore *chore = &wal->chore;
    uint32_t needed;

    pthread_mutex_lock(&wal->lock);
    *first = wal->files.at[0]->number;
    *newest = wal->files.at[wal->files.count - 1]->number;
    *next_is_ready = *newest > wal->current;
    needed = chore->first_needed;
    for (uint32_t number = *first; number < needed; number++) {
        struct wal_file *file = wal_files_find(&wal->files, number);

        if (file->pins) {
            needed = number;
            break;
        }
        file->is_gone = true;
    }
    chore->dropped_before = needed;
    if (needed > *first) {
        chore->manifest.first = needed;
        chore->manifest.first_sequence = wal_files_find(&wal->files, needed)->first_sequence;
        chore->manifest.synced = wal->shared.synced;
        chore->manifest.has_runs = true;
    }
    pthread_mutex_unlock(&wal->lock);
}

static void fail(struct wal *wal, int result, bool is_fatal, const char *what)
{
    struct wal_chore *chore = &wal->chore;

    chore->result = result;
    chore->is_fatal = is_fatal;
    snprintf(chore->error, sizeof chore->error, "%s in '%s': %s", what, wal->disk.dir,
             strerror(-result));
}

/* Drops files after the manifest durably excludes them: some are kept for reuse, the others are
 * removed. */
static void drop(struct wal *wal, uint32_t first)
{
    struct wal_chore *chore = &wal->chore;
    int result = wal_manifest_write(&wal->disk, chore->manifest_fd, &chore->manifest);

    if (result < 0) {
        fail(wal, result, true, "cannot write MANIFEST");
        return;
    }
    for (uint32_t number = first; number < chore->dropped_before; number++) {
        uint32_t bytes;

        pthread_mutex_lock(&wal->lock);
        bytes = wal_files_find(&wal->files, number)->bytes;
        pthread_mutex_unlock(&wal->lock);
        if (chore->spare_count < chore->spares_wanted && bytes == wal->options.file_bytes)
            chore->spares[chore->spare_count++] = number;
        else
            (void)wal_file_unlink(&wal->disk, number); /* the next opening tries again */
    }
}

/* Records the new file before any batch is in it, so that a later loss of the file is detected. */
static void note_next(struct wal *wal, uint32_t number)
{
    struct wal_chore *chore = &wal->chore;
    int result;

    chore->manifest.newest = number;
    if (chore->manifest.synced < chore->synced)
        chore->manifest.synced = chore->synced;
    result = wal_manifest_write(&wal->disk, chore->manifest_fd, &chore->manifest);
    if (result < 0)
        fail(wal, result, true, "cannot write MANIFEST");
}

static void make_next(struct wal *wal, uint32_t number)
{
    struct wal_chore *chore = &wal->chore;
    uint32_t spare = 0;
    bool is_fatal = false;
    int result;

    if (!chore->is_held && chore->spare_count > 0)
        spare = chore->spares[--chore->spare_count];
    result = wal_file_make(&wal->disk, number, wal->options.file_bytes, wal->epoch, spare,
                           &chore->made, &is_fatal);
    if (result < 0)
        fail(wal, result, is_fatal,
             result == -ENOSPC || result == -EDQUOT ? "no space for the next log file"
                                                    : "cannot create the next log file");
    else
        note_next(wal, number);
}

int wal_upkeep(struct wal *wal)
{
    struct wal_chore *chore = &wal->chore;
    uint32_t first, newest;
    bool next_is_ready;

    chore->result = 0;
    plan(wal, &first, &newest, &next_is_ready);
    if (chore->dropped_before > first)
        drop(wal, first);
    if (chore->result == 0 && !next_is_ready)
        make_next(wal, newest + 1);
    while (has_too_many_spares(chore)) /* the next opening tries again */
        (void)wal_file_unlink(&wal->disk, chore->spares[--chore->spare_count]);
    return chore->result;
}

void wal_upkept(struct wal *wal)
{
    struct wal_chore *chore = &wal->chore;

    pthread_mutex_lock(&wal->lock);
    if (!chore->is_fatal)
        while (wal->files.at[0]->number < chore->dropped_before)
            wal_files_drop_first(&wal->disk, &wal->files);
    if (chore->made && !wal_files_add(&wal->files, chore->made)) {
        fail(wal, -ENOMEM, true, "out of memory");
        wal->disk.fs->ops->close(wal->disk.fs->ctx, chore->made->fd);
        free(chore->made);
    }
    chore->made = NULL;
    pthread_mutex_unlock(&wal->lock);
    wal->stuck = chore->result == -EDQUOT ? -ENOSPC : chore->result;
    if (chore->result < 0 && !wal->is_broken)
        memcpy(wal->error, chore->error, sizeof wal->error);
    wal->is_broken |= chore->is_fatal;
}

/* ---- figures ---- */

void wal_stats(const struct wal *wal, struct wal_stats *out)
{
    *out = (struct wal_stats){
        .bytes_written = wal->bytes_written,
        .records_written = wal->records_written,
        .commits = wal->commits,
        .syncs = wal->syncs,
        .files = wal->files.count,
        .broken = wal->is_broken,
        .stuck = wal->stuck != 0,
        .full = wal->stuck == -ENOSPC,
    };
    for (uint32_t i = 0; i < wal->files.count; i++)
        out->bytes_on_disk += wal->files.at[i]->bytes;
}

bool wal_room(struct wal *wal, struct fs_room *out)
{
    const struct fs *fs = wal->disk.fs;
    const struct wal_file *file;

    pthread_mutex_lock(&wal->lock);
    file = wal_current(wal); /* stays open */
    pthread_mutex_unlock(&wal->lock);
    return fs->ops->room && fs->ops->room(fs->ctx, file->fd, out) == 0;
}

const char *wal_error(const struct wal *wal)
{
    return wal->is_broken || wal->stuck ? wal->error : NULL;
}
