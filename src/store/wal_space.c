#include "store/wal_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLACK_FILES = 4 };

/* ---- what is kept ---- */

void wal_keep(struct wal *wal, struct record_place place)
{
    struct wal_file *file = wal_files_find(&wal->files, place.file);

    assert(file && place.bytes);
    file->kept_records++;
    file->kept_bytes += place.bytes;
    wal->kept_bytes += place.bytes;
}

void wal_retain(struct wal *wal, struct record_place place)
{
    wal_keep(wal, place);
}

void wal_release(struct wal *wal, struct record_place place)
{
    struct wal_file *file = wal_files_find(&wal->files, place.file);

    assert(file && file->kept_records && file->kept_bytes >= place.bytes);
    file->kept_records--;
    file->kept_bytes -= place.bytes;
    wal->kept_bytes -= place.bytes;
    file->release_sequence = wal->next_sequence;
    if (file->kept_records == 0)
        wal_review(wal);
}

/*
 * A file may go when it and all older ones keep nothing, and what made it so (the DONE, the job
 * carried forward) is synced: release_sequence. Topics are not counted: they are written again when
 * a newer file is begun, which must be synced too. The file being written and the one before it
 * stay in any case.
 */
void wal_review(struct wal *wal)
{
    uint32_t needed = wal->shared.first_needed;
    const struct wal_file *file, *next;

    for (; needed + 2 <= wal->current; needed++) {
        file = wal_files_find(&wal->files, needed);
        next = wal_files_find(&wal->files, needed + 1);
        if (file->kept_records || needed >= wal->topics.file)
            break;
        if (wal->synced < file->release_sequence || wal->synced < wal->topics.sequence ||
            wal->synced < next->last_sequence) {
            /* Where every commit syncs, the next one will do; else one has to be asked for. */
            wal->drop_wants_sync = wal->options.sync != WAL_SYNC_ALWAYS && wal->dirty_first;
            break;
        }
    }
    if (needed == wal->shared.first_needed)
        return;
    pthread_mutex_lock(&wal->lock);
    wal->shared.first_needed = needed;
    wal->shared.first_sequence = wal_files_find(&wal->files, needed)->first_sequence;
    wal->shared.synced = wal->synced;
    pthread_mutex_unlock(&wal->lock);
}

uint32_t wal_oldest_to_carry(const struct wal *wal)
{
    const struct wal_file *oldest = wal_files_find(&wal->files, wal->shared.first_needed);
    uint64_t files = wal->current - wal->shared.first_needed + 1;

    if (files <= SLACK_FILES || oldest->kept_records == 0)
        return 0;
    return (files - SLACK_FILES) * wal->options.file_bytes > 2 * wal->kept_bytes ? oldest->number
                                                                                 : 0;
}

/* ---- upkeep ---- */

bool wal_wants_upkeep(struct wal *wal)
{
    wal->chore.first_needed = wal->shared.first_needed;
    return !wal->is_broken &&
           (!wal_next_is_ready(wal) || wal->shared.first_needed > wal->files.at[0]->number);
}

/* Files from `first` on that may go now; pinned ones wait. Marks them, so that nobody begins to
 * read them. */
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

/* Once the manifest says so durably, the files before are nobody's: one waits to be used again, the
 * others are removed. */
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
        if (chore->spare == 0 && bytes == wal->options.file_bytes)
            chore->spare = number;
        else
            (void)wal_file_unlink(&wal->disk, number); /* the next opening tries again */
    }
}

static void make_next(struct wal *wal, uint32_t number)
{
    struct wal_chore *chore = &wal->chore;
    bool is_fatal = false;
    int result = wal_file_make(&wal->disk, number, wal->options.file_bytes, wal->epoch,
                               chore->spare, &chore->made, &is_fatal);

    chore->spare = 0;
    if (result < 0)
        fail(wal, result, is_fatal,
             result == -ENOSPC || result == -EDQUOT ? "no space for the next log file"
                                                    : "cannot make the next log file");
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
    wal->is_full = chore->result < 0;
    if (chore->result < 0 && !wal->is_broken)
        memcpy(wal->error, chore->error, sizeof wal->error);
    wal->is_broken |= chore->is_fatal;
}

/* ---- figures ---- */

void wal_stats(const struct wal *wal, struct wal_stats *out)
{
    *out = (struct wal_stats){
        .bytes_kept = wal->kept_bytes,
        .bytes_written = wal->bytes_written,
        .commits = wal->commits,
        .syncs = wal->syncs,
        .files = wal->files.count,
        .broken = wal->is_broken,
        .full = wal->is_full,
    };
    for (uint32_t i = 0; i < wal->files.count; i++)
        out->bytes_on_disk += wal->files.at[i]->bytes;
}

const char *wal_error(const struct wal *wal)
{
    return wal->is_broken || wal->is_full ? wal->error : NULL;
}
