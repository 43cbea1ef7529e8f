/*
 * What the archivist thread does of a checkpoint: all that touches the disk. While the work is with
 * it (is_with_archivist) the shard leaves alone what checkpoint_private.h says belongs to it, so
 * nothing here is locked.
 */
#include "local/checkpoint_private.h"

#include <errno.h>
#include <time.h>

enum {
    RESERVE_FILES = 4,
    MERGE_ENTRIES = 2000000,   /* of tables; then a checkpoint may come in between */
    PACE_BYTES_A_MS = 64 << 10 /* what a checkpoint writes beside everything else */
};

/* ---- for the depot, while it writes ---- */

int checkpoint_pace(void *ctx, size_t bytes)
{
    const struct shard *shard = ctx;
    if (!shard->checkpoint)
        return 0;
    if (atomic_load(&shard->checkpoint->is_cancelled))
        return -ECANCELED;
    if (shard->options.fs || atomic_load(&shard->checkpoint->is_hurried))
        return 0;
    int64_t us = (int64_t)bytes * 1000 / PACE_BYTES_A_MS;
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&pause, NULL);
    return 0;
}

int checkpoint_read_log(void *ctx, struct record_place place, struct buffer *scratch,
                        struct slice *out)
{
    struct checkpoint *checkpoint = ctx;
    return wal_read_next(checkpoint->shard->wal, place, &checkpoint->window, scratch, out);
}

void checkpoint_apply(void *ctx, const void *changed, struct record *record)
{
    (void)ctx;
    engine_changed_apply(changed, record);
}

/* ---- the pieces ---- */

static int build_run(struct checkpoint *checkpoint)
{
    if (checkpoint->is_without_space)
        depot_spend_reserve(checkpoint->shard->depot);
    int result = depot_build(&checkpoint->build);
    checkpoint_forget_changed(checkpoint); /* here, as there may be a million of them */
    return result;
}

static int commit(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    if (checkpoint->is_without_space)
        depot_spend_reserve(depot);
    return depot_commit(depot, &checkpoint->catalog, &checkpoint->is_fatal);
}

static int begin_depot(struct checkpoint *checkpoint)
{
    depot_tidy(checkpoint->shard->depot);
    return depot_load_filters(checkpoint->filters);
}

/* A server whose log never filled two files needs no reserve. */
static int tidy(struct checkpoint *checkpoint)
{
    const struct local_options *local = checkpoint->shard->options.local;
    uint64_t file_bytes = local->wal_file_bytes ? local->wal_file_bytes : 64u << 20;
    depot_tidy(checkpoint->shard->depot);
    if (!checkpoint->before_file && !checkpoint->is_without_space)
        return 0;
    return depot_make_reserve(checkpoint->shard->depot, RESERVE_FILES * file_bytes);
}

static uint64_t merge_entries(const struct checkpoint *checkpoint)
{
    uint64_t entries = checkpoint->shard->options.limits.merge_entries;
    return entries ? entries : MERGE_ENTRIES;
}

/* ---- there and back ---- */

static void perform(struct work *work)
{
    struct checkpoint *checkpoint = list_entry(work, struct checkpoint, work);
    struct depot *depot = checkpoint->shard->depot;
    checkpoint->result = 0;
    if (checkpoint->phase == CHECKPOINT_FILTERS)
        checkpoint->result = begin_depot(checkpoint);
    else if (checkpoint->phase == CHECKPOINT_BUILDING)
        checkpoint->result = build_run(checkpoint);
    else if (checkpoint->phase == CHECKPOINT_MERGING)
        checkpoint->result = depot_keys_merge(depot, &checkpoint->merge, merge_entries(checkpoint));
    else if (checkpoint->phase == CHECKPOINT_COMMITTING)
        checkpoint->result = commit(checkpoint);
    else if (checkpoint->phase == CHECKPOINT_TIDYING)
        checkpoint->result = tidy(checkpoint);
}

static void performed(struct work *work)
{
    list_entry(work, struct checkpoint, work)->is_with_archivist = false;
}

void checkpoint_give(struct checkpoint *checkpoint, enum checkpoint_phase phase)
{
    checkpoint->phase = phase;
    checkpoint->is_with_archivist = true;
    checkpoint->is_fatal = false;
    checkpoint->work.perform = perform;
    checkpoint->work.done = performed;
    worker_give(checkpoint->shard->archivist, &checkpoint->work);
}
