#include "store/wal_private.h"

/*
 * Space by what is kept: a file may go once nothing in it is kept. With checkpoints
 * (wal_options.by_checkpoint) nothing is counted here, and wal_checkpointed alone lets files go.
 */

enum { SLACK_FILES = 4 };

/* ---- what is kept ---- */

void wal_keep(struct wal *wal, struct record_place place)
{
    struct wal_file *file = wal_files_find(&wal->files, place.file);

    if (wal->options.by_checkpoint)
        return;
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

    if (wal->options.by_checkpoint)
        return;
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

    if (wal->options.by_checkpoint)
        return;
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
    if (needed > wal->shared.first_needed)
        wal_let_go(wal, needed);
}

uint32_t wal_oldest_to_carry(const struct wal *wal)
{
    const struct wal_file *oldest = wal_files_find(&wal->files, wal->shared.first_needed);
    uint64_t files = wal->current - wal->shared.first_needed + 1;

    if (wal->options.by_checkpoint || files <= SLACK_FILES || oldest->kept_records == 0)
        return 0;
    return (files - SLACK_FILES) * wal->options.file_bytes > 2 * wal->kept_bytes ? oldest->number
                                                                                 : 0;
}
