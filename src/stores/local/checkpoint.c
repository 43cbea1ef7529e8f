/*
 * Checkpoints, one after the other: collect the live content of the log's oldest files, build a run
 * from it, install the run, commit the catalog. Filters and tables of keys are processed in
 * between. checkpoint_step has the order of the steps, and what a stop or a failure does at each.
 */
#include "local/checkpoint.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/trouble.h"
#include "base/vector.h"
#include "local/preload.h"
#include "net/activity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FILES_MIN = 2, /* of the log, that could be freed */
    FILES_MAX = 2,
    /* Number of log files ahead of the checkpoint: */
    FILES_SLOW = 4,                /* the archivist stops pausing, pushes slow down, */
    FILES_BEHIND = 7,              /* and pushes wait */
    ALLOWED_BYTES_A_MS = 24 << 10, /* of pushes, for each file below that */
    ALLOWED_MS = 5,
    SMALL_BYTES_A_MS = 2 << 10, /* of small pushes beside the others, */
    FILES_SMALL = 9,            /* up to which even these wait */
    PACE_BYTES_A_MS = 64 << 10, /* write rate of a checkpoint during normal work */

    COLLECTS = 8192,          /* entries processed per step */
    COLD_MS = 10 * 60 * 1000, /* jobs due later are not read soon */
    INSTALLS = 2048,
    INSTALLS_AHEAD = 16, /* items to prefetch */
    EVICTS = 8192,       /* entries processed per step */
    DAMAGED_MAX = 512,   /* jobs with a damaged record, which stay in place */

    /* The reserve: the size of this many log files, a fraction of one before the first checkpoint,
     * and never more than a fraction of the disk. */
    RESERVE_FILES = 4,
    RESERVE_FIRST = 4,
    RESERVE_OF_DISK = 8,
    MERGE_ENTRIES = 2000000, /* of tables; then a checkpoint may run in between */
    KEYS_EVERY_MS = 1000,
    SPACE_EVERY_MS = 1000, /* also if rewritten runs would not become smaller */
    SHORT_EVERY_MS =
        5000, /* likewise while space is short: what is alive in the runs may not fit */
    RETRY_MS = 1000,
    RETRY_MS_MAX = 5000
};

VECTOR_DECLARE(changed_list, struct engine_changed *)

/*
 * The state of checkpoints. Everything belongs to the shard's thread, with two exceptions: while
 * `is_with_archivist` is set, the fields marked [archivist] belong to that thread and are handed
 * over and back with the work; and the archivist reads the last two fields at any time. The
 * archivist may also read unmarked fields that the shard does not change before the work is back:
 * `phase`, `before_file`, `is_without_space`.
 */
struct checkpoint {
    struct shard *shard;
    struct work work;
    enum checkpoint_phase phase;
    bool is_with_archivist;

    /* The current checkpoint. */
    uint32_t before_file; /* log files before this one become unnecessary; 0: no files */
    int64_t
        now_ms; /* of the step, by the process's clock: durations here do not depend on the clock of
                 * jobs */
    int64_t began_ms;
    struct engine_collect collect;
    struct depot_build build;    /* [archivist] */
    struct changed_list changed; /* [archivist] the changes that the items point at */
    struct wal_window window;    /* [archivist] of the log's files, for building */
    struct catalog catalog;      /* [archivist] */
    int result;                  /* [archivist] of its last work */
    bool is_fatal;               /* [archivist] the store is unusable */
    uint32_t at;                 /* item or entry */
    uint64_t needs;              /* sequence that must be synced before the commit */

    /* Work between checkpoints. */
    struct depot_view *filters; /* [archivist] held while its filters are read */
    bool filters_failed;
    bool has_begun;                /* the first check after opening has been done */
    struct depot_keys_merge merge; /* [archivist] */
    bool is_merging;               /* tables; a checkpoint may run between two steps of the merge */
    /* A checkpoint was made: tables are merged before the next one, so that their number does not
     * grow while checkpoints follow each other. */
    bool has_keys_next;
    /* When to check the tables of keys again: the check examines all tables and all runs, and
     * hardly anything but a checkpoint changes its result. */
    int64_t keys_ms;
    int64_t space_ms; /* when to check again for dead data in runs */

    /* Failures. */
    uint32_t failures; /* consecutive failures */
    int64_t retry_ms;
    /* A checkpoint failed for lack of disk space: the reserve is spent, and until it exists again,
     * pushes are refused, and a run is rewritten only if what is alive in it fits. */
    bool is_without_space;

    int64_t allowance, allowed_ms;             /* bytes of pushes, and the time of that value */
    int64_t small_allowance, small_allowed_ms; /* the same for small pushes */
    struct checkpoint_figures figures;
    /* For the archivist: work at full speed; stop, because the shard stops. */
    atomic_bool is_hurried, is_cancelled;
};

/* ---- abandoning ---- */

/* Frees the changes that the items point at. On the thread that has the items. */
static void forget_changed(struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->changed.count; i++)
        engine_changed_free(checkpoint->changed.at[i]);
    changed_list_fini(&checkpoint->changed);
}

/* Logs the failure and sets the time of the next attempt. `error`: a text, or NULL or empty for the
 * text of the errno. */
static void checkpoint_failed(struct checkpoint *checkpoint, int failed, const char *during,
                              const char *error)
{
    log_event(LOG_ERROR, "checkpoint failed", LOG_NUMBER("shard", checkpoint->shard->options.index),
              LOG_TEXT("during", during),
              LOG_TEXT("error", error && *error ? error : strerror(-failed)));
    checkpoint->figures.failed++;
    atomic_store_explicit(&checkpoint->shard->checkpoints_failed, checkpoint->figures.failed,
                          memory_order_relaxed);
    bool is_merge =
        checkpoint->phase == CHECKPOINT_MERGING || checkpoint->phase == CHECKPOINT_FILTERS;
    trouble_note(is_merge ? TROUBLE_MERGE : TROUBLE_CHECKPOINT, checkpoint->shard->options.index,
                 true);
    checkpoint->is_without_space |= failed == -ENOSPC || failed == -EDQUOT;
    int64_t wait_ms = (int64_t)RETRY_MS << (checkpoint->failures < 5 ? checkpoint->failures++ : 5);
    checkpoint->retry_ms =
        clock_inner_ms() + (wait_ms < RETRY_MS_MAX ? wait_ms : (int64_t)RETRY_MS_MAX);
}

/* Frees the data of the current checkpoint. */
static void become_idle(struct checkpoint *checkpoint)
{
    forget_changed(checkpoint);
    depot_build_fini(&checkpoint->build);
    catalog_fini(&checkpoint->catalog);
    wal_window_fini(&checkpoint->window);
    checkpoint->phase = CHECKPOINT_IDLE;
    checkpoint->keys_ms = 0;
}

/* Abandons a checkpoint before the commit: the unfinished run is deleted. */
static void give_up(struct checkpoint *checkpoint, int failed, const char *during)
{
    checkpoint_failed(checkpoint, failed, during, checkpoint->build.error);
    depot_abandon(checkpoint->shard->depot, &checkpoint->build);
    become_idle(checkpoint);
}

/*
 * ---- the speed of pushes and the archivist ----
 *
 * While the log is not far ahead of the current checkpoint, the archivist pauses, so that the disk
 * is free for the log's syncs. From FILES_SLOW on, pushes have an allowance of bytes that grows
 * with time, more slowly the further the log is ahead. So all pushes become a little later, and
 * hardly any must wait for the whole checkpoint. Small pushes have a second allowance: otherwise
 * they would wait for as long as a megabyte before them needs.
 */

/* Returns the number of log files that no checkpoint has made unnecessary; 0 if no checkpoint is in
 * progress. */
static uint32_t files_ahead(const struct checkpoint *checkpoint)
{
    uint32_t first = depot_catalog(checkpoint->shard->depot)->log_first;
    bool goes_on = checkpoint->phase != CHECKPOINT_IDLE && checkpoint->phase != CHECKPOINT_STOPPED;
    return goes_on ? wal_current_file(checkpoint->shard->wal) - (first ? first : 1) : 0;
}

/* Sets whether the archivist may pause while it writes. */
static void set_pace(struct checkpoint *checkpoint)
{
    bool hurries = files_ahead(checkpoint) >= FILES_SLOW || checkpoint->is_without_space;
    atomic_store_explicit(&checkpoint->is_hurried, hurries, memory_order_relaxed);
}

bool checkpoint_takes(struct checkpoint *checkpoint, size_t bytes)
{
    uint32_t files = files_ahead(checkpoint);
    if (files < FILES_SLOW)
        return true;
    int64_t now_ms = clock_inner_ms(), passed_ms = now_ms - checkpoint->allowed_ms;
    if (checkpoint->retry_ms > now_ms)
        return true;
    if (files >= FILES_BEHIND)
        return false;
    int64_t rate = (int64_t)(FILES_BEHIND - files) * ALLOWED_BYTES_A_MS;
    checkpoint->allowed_ms = now_ms;
    checkpoint->allowance += (passed_ms < ALLOWED_MS ? passed_ms : ALLOWED_MS) * rate;
    if (checkpoint->allowance > ALLOWED_MS * rate)
        checkpoint->allowance = ALLOWED_MS * rate;
    if (checkpoint->allowance <= 0)
        return false;
    checkpoint->allowance -= (int64_t)bytes;
    return true;
}

bool checkpoint_takes_small(struct checkpoint *checkpoint, size_t bytes)
{
    int64_t now_ms = clock_inner_ms(), passed_ms = now_ms - checkpoint->small_allowed_ms;
    int64_t most = (int64_t)CHECKPOINT_SMALL_BYTES;
    if (bytes > CHECKPOINT_SMALL_BYTES || files_ahead(checkpoint) >= FILES_SMALL)
        return false;
    checkpoint->small_allowed_ms = now_ms;
    checkpoint->small_allowance += (passed_ms < most ? passed_ms : most) * SMALL_BYTES_A_MS;
    if (checkpoint->small_allowance > most)
        checkpoint->small_allowance = most;
    if (checkpoint->small_allowance <= 0)
        return false;
    checkpoint->small_allowance -= (int64_t)bytes;
    return true;
}

/*
 * ---- the work of the archivist thread: all disk access ----
 *
 * While the archivist has the work (is_with_archivist), the shard does not touch the fields that
 * struct checkpoint assigns to the archivist, so no lock is needed.
 */

/* ---- callbacks of the depot while it writes ---- */

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

/* Reads a record of the log, for the build. [archivist] */
static int read_log(void *ctx, struct record_place place, struct buffer *scratch, struct slice *out)
{
    struct checkpoint *checkpoint = ctx;
    return wal_read_next(checkpoint->shard->wal, place, &checkpoint->window, scratch, out);
}

/* Applies to a job's record the changes since it was written, for the build. [archivist] */
static void apply_changed(void *ctx, const void *changed, struct record *record)
{
    (void)ctx;
    engine_changed_apply(changed, record);
}

/* ---- the parts of the work ---- */

static int build_run(struct checkpoint *checkpoint)
{
    if (checkpoint->is_without_space)
        depot_spend_reserve(checkpoint->shard->depot);
    int result = depot_build(&checkpoint->build);
    forget_changed(checkpoint); /* here, because there may be a million of them */
    return result;
}

static int commit_catalog(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    if (checkpoint->is_without_space)
        depot_spend_reserve(depot);
    return depot_commit(depot, &checkpoint->catalog, &checkpoint->is_fatal);
}

/* Creates the reserve, or a larger one. Before the first checkpoint, a reserve is enough with which
 * a checkpoint can be written after most jobs have ended. */
static int make_reserve(struct checkpoint *checkpoint, bool is_first)
{
    const struct local_options *local = checkpoint->shard->options.local;
    uint64_t file_bytes = local->wal_file_bytes ? local->wal_file_bytes : 64u << 20;
    uint64_t bytes = is_first ? file_bytes / RESERVE_FIRST : file_bytes * RESERVE_FILES;
    struct fs_room room;
    if (wal_room(checkpoint->shard->wal, &room) && room.all_bytes / RESERVE_OF_DISK < bytes)
        bytes = room.all_bytes / RESERVE_OF_DISK;
    return depot_make_reserve(checkpoint->shard->depot, bytes);
}

/* Does the archivist's first work, also repeated after filters could not be read: removes what
 * crashed attempts left, and reads filters. If the disk has no space for the reserve, that is
 * retried later. */
static int begin_depot(struct checkpoint *checkpoint)
{
    depot_tidy(checkpoint->shard->depot);
    int result = depot_load_filters(checkpoint->filters);
    (void)make_reserve(checkpoint, true);
    return result;
}

static int tidy_depot(struct checkpoint *checkpoint)
{
    depot_tidy(checkpoint->shard->depot);
    if (!checkpoint->before_file && !checkpoint->is_without_space)
        return 0;
    return make_reserve(checkpoint, false);
}

/* Returns how many entries of tables are merged before a checkpoint may run. */
static uint64_t merge_entries(const struct checkpoint *checkpoint)
{
    uint64_t entries = checkpoint->shard->options.limits.merge_entries;
    return entries ? entries : MERGE_ENTRIES;
}

/* ---- handing over ---- */

/* Does the work of the phase, on the archivist's thread. */
static void archivist_perform(struct work *work)
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
        checkpoint->result = commit_catalog(checkpoint);
    else if (checkpoint->phase == CHECKPOINT_TIDYING)
        checkpoint->result = tidy_depot(checkpoint);
}

static void archivist_performed(struct work *work)
{
    list_entry(work, struct checkpoint, work)->is_with_archivist = false;
}

/* Hands the checkpoint over for this phase. checkpoint_step continues once it is back. */
static void give_archivist(struct checkpoint *checkpoint, enum checkpoint_phase phase)
{
    checkpoint->phase = phase;
    checkpoint->is_with_archivist = true;
    checkpoint->is_fatal = false;
    checkpoint->work.perform = archivist_perform;
    checkpoint->work.done = archivist_performed;
    worker_give(checkpoint->shard->archivist, &checkpoint->work);
}

/* ---- collecting: the jobs to write to the new run, a bounded number of entries per step ---- */

static bool reserve_item(struct depot_build *build)
{
    if (build->count < build->cap)
        return true;
    size_t cap = build->cap ? build->cap + build->cap / 2 : 4096;
    struct depot_item *items = realloc(build->items, cap * sizeof *items);
    if (!items)
        return false;
    build->items = items;
    build->cap = cap;
    return true;
}

/* Adds a job to the new run, for the engine's collecting. Returns false when out of memory. */
static bool on_item(void *ctx, const struct engine_item *item)
{
    struct checkpoint *checkpoint = ctx;
    struct depot_build *build = &checkpoint->build;
    if (!reserve_item(build) ||
        (item->changed && !changed_list_add(&checkpoint->changed, item->changed)))
        return false; /* the engine keeps ownership of the change */
    build->items[build->count++] =
        (struct depot_item){.when_ms = (uint64_t)item->when_ms & 0xffffffffffffu,
                            .section = (uint64_t)item->section & 0xff,
                            .sequence = item->sequence,
                            .place = item->place,
                            .id = item->id,
                            .changed = item->changed};
    return true;
}

/* Returns whether the checkpoint rewrites this run, for the engine's collecting. */
static bool is_victim(void *ctx, uint32_t number)
{
    const struct checkpoint *checkpoint = ctx;
    const struct depot_run *run = depot_view_run(depot_view(checkpoint->shard->depot), number);
    return run && run->is_victim;
}

/* Plans a checkpoint. The phase is then collecting, or idle if planning failed. */
/* Returns whether the disk lacks space: for a checkpoint, or for the next file of the log. */
static bool is_short(const struct checkpoint *checkpoint)
{
    return checkpoint->is_without_space || checkpoint->shard->log_is_short;
}

/* Returns how much a checkpoint may write to the runs if space is short: half of what is free, so that the log and the catalog have room. */
static uint64_t spare_bytes(const struct checkpoint *checkpoint)
{
    struct fs_room room;
    if (!is_short(checkpoint) || !wal_room(checkpoint->shard->wal, &room))
        return 0;
    return room.free_bytes / 2;
}

static void begin_checkpoint(struct checkpoint *checkpoint, uint32_t before_file,
                             struct engine_now now)
{
    checkpoint->before_file = before_file;
    checkpoint->began_ms = checkpoint->now_ms;
    checkpoint->build = (struct depot_build){.is_short = is_short(checkpoint),
                                             .spare_bytes = spare_bytes(checkpoint),
                                             .cold_ms = now.inner_ms + COLD_MS,
                                             .read_log = read_log,
                                             .apply = apply_changed,
                                             .ctx = checkpoint};
    int failed = depot_plan(checkpoint->shard->depot, &checkpoint->build);
    if (failed) {
        checkpoint_failed(checkpoint, failed, "planning", checkpoint->build.error);
        become_idle(checkpoint);
        return;
    }
    checkpoint->collect = (struct engine_collect){
        .before_file = before_file, .is_victim = is_victim, .each = on_item, .ctx = checkpoint};
    checkpoint->phase = CHECKPOINT_COLLECTING;
}

/* Returns how many jobs are processed per step. */
static uint32_t jobs_per_step(const struct checkpoint *checkpoint, uint32_t usual)
{
    uint32_t limit = checkpoint->shard->options.limits.checkpoint_jobs;
    return limit ? limit : usual;
}

static bool step_collecting(struct checkpoint *checkpoint, struct engine_now now)
{
    int result = engine_collect(checkpoint->shard->engine, &checkpoint->collect, now,
                                jobs_per_step(checkpoint, COLLECTS));
    if (result == 1)
        return true;
    if (result < 0)
        give_up(checkpoint, result, "collecting");
    else
        give_archivist(checkpoint, CHECKPOINT_BUILDING);
    return false;
}

/* ---- installing: from now on, the jobs are in the new run, and may leave memory ---- */

/* Handles jobs whose record is unreadable. Such a job in a run stays there, but if its record is in
 * the log, the log must stay. */
static int keep_damaged(struct checkpoint *checkpoint)
{
    const struct shard *shard = checkpoint->shard;
    const struct depot_build *build = &checkpoint->build;
    for (size_t i = build->slots; i < build->count; i++)
        if (!record_place_is_run(build->items[i].place))
            return -EIO;
    if (build->failed > DAMAGED_MAX)
        return -EIO;
    if (wal_has_room(shard->wal, build->failed * (size_t)ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER))
        return -EAGAIN;
    for (size_t i = build->slots; i < build->count; i++)
        engine_keep(shard->engine, build->items[i].id, build->items[i].place);
    return 0;
}

/* Adds the run that the archivist has written to the depot's view. */
static bool run_built(struct checkpoint *checkpoint)
{
    struct depot_build *build = &checkpoint->build;
    int failed = checkpoint->result;
    if (!failed && build->failed)
        failed = keep_damaged(checkpoint);
    if (!failed && !depot_install(checkpoint->shard->depot, build))
        failed = -ENOMEM;
    if (failed) {
        give_up(checkpoint, failed, "building a run");
        return false;
    }
    checkpoint->at = 0;
    checkpoint->phase = CHECKPOINT_INSTALLING;
    return true;
}

/* Moves the job to this slot, unless it has ended or moved meanwhile. */
static void install_item(struct checkpoint *checkpoint, uint32_t slot)
{
    struct shard *shard = checkpoint->shard;
    const struct depot_item *item = &checkpoint->build.items[slot];
    struct record_place place = depot_build_place(&checkpoint->build, slot);
    enum job_section section;
    if (item->id) {
        if (!engine_install(shard->engine, item->id, item->place, place,
                            (enum job_section)item->section, checkpoint->before_file))
            depot_release(shard->depot, place, &section);
    } else if (!depot_is_alive(shard->depot, item->place)) {
        depot_release(shard->depot, place, &section);
    } else {
        engine_relocate(shard->engine, item->key_low, item->place, place);
    }
}

/* Reports the new places to the engine, some jobs per step. */
static bool step_installing(struct checkpoint *checkpoint)
{
    const struct depot_build *build = &checkpoint->build;
    for (uint32_t left = jobs_per_step(checkpoint, INSTALLS); left && checkpoint->at < build->slots;
         left--) {
        if (checkpoint->at + INSTALLS_AHEAD < build->slots)
            engine_install_soon(checkpoint->shard->engine,
                                build->items[checkpoint->at + INSTALLS_AHEAD].id);
        install_item(checkpoint, checkpoint->at++);
    }
    if (checkpoint->at < checkpoint->build.slots)
        return true;
    if (!depot_installed(checkpoint->shard->depot, &checkpoint->build))
        return false; /* no memory: the next step tries again */
    checkpoint->at = 0;
    checkpoint->phase = CHECKPOINT_EVICTING;
    return true;
}

/* Evicts from memory jobs that are stored in runs and not needed soon. */
static bool step_evicting(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    if (shard->listings)
        return false;
    if (!engine_evict_some(
            shard->engine, &checkpoint->at, preload_keep_until_ms(shard->preload, now),
            preload_ready_max(shard->preload), now, jobs_per_step(checkpoint, EVICTS)))
        return true;
    topics_begin(shard);
    checkpoint->phase = CHECKPOINT_TOPICS;
    return true;
}

/*
 * ---- committing: one moment of the shard becomes the new catalog, once the log is synced up to it
 * ----
 *
 * Until the catalog is written, nothing of this is valid, and the log's files stay.
 */

/* Spends the reserve if neither the log has room nor the disk for its next file. */
static void find_room(struct checkpoint *checkpoint)
{
    struct shard *shard = checkpoint->shard;
    struct wal_stats stats;
    wal_stats(shard->wal, &stats);
    if (!shard->topics_want_room || !stats.full || checkpoint->is_without_space)
        return;
    checkpoint->is_without_space = true;
    depot_spend_reserve(shard->depot);
}

/* Waits until the topics' records, which are in the log's old files, have been written again. */
static bool step_topics(struct checkpoint *checkpoint)
{
    if (topics_is_busy(checkpoint->shard)) {
        find_room(checkpoint);
        return false;
    }
    checkpoint->phase = CHECKPOINT_SNAPSHOT;
    return true;
}

/* Returns the topics of the catalog, with the number of their jobs in runs. NULL: out of memory. */
static struct catalog_topic *stored_topics(const struct shard *shard, uint32_t *count)
{
    uint32_t at = 0;
    struct catalog_topic *topics =
        calloc(engine_topic_count(shard->engine) + (size_t)1, sizeof *topics);
    *count = 0;
    while (topics &&
           engine_stored_next(shard->engine, &at, &topics[*count].name, topics[*count].stored,
                              &topics[*count].dead_bytes, &topics[*count].kept_bytes))
        ++*count;
    return topics;
}

/* Captures one moment of the shard for the catalog. */
static bool step_snapshot(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    const struct catalog *old = depot_catalog(shard->depot);
    uint32_t count, first = old->log_first;
    uint64_t sequence = old->log_first_sequence;
    if (checkpoint->now_ms < checkpoint->retry_ms || shard->moved)
        return false;
    if (checkpoint->before_file) {
        first = checkpoint->before_file;
        sequence = wal_first_sequence(shard->wal, first);
    }
    struct catalog_topic *topics = stored_topics(shard, &count);
    int failed = topics ? depot_snapshot(shard->depot, first, sequence, topics, count, now.inner_ms,
                                         now.wall_ms, &checkpoint->catalog)
                        : -ENOMEM;
    free(topics);
    if (failed) {
        checkpoint_failed(checkpoint, failed, "snapshot", NULL);
        return false;
    }
    checkpoint->needs = wal_open_sequence(shard->wal) - wal_open_is_empty(shard->wal);
    checkpoint->phase = CHECKPOINT_SYNCING;
    return true;
}

/* Syncs the log up to the snapshot before the commit. */
static bool step_syncing(struct checkpoint *checkpoint)
{
    struct shard *shard = checkpoint->shard;
    if (wal_synced(shard->wal) < checkpoint->needs) {
        shard_commit(shard, true);
        return false;
    }
    give_archivist(checkpoint, CHECKPOINT_COMMITTING);
    return false;
}

/* Handles the result of writing the catalog. After a failure, the snapshot is repeated. */
static bool catalog_committed(struct checkpoint *checkpoint)
{
    struct shard *shard = checkpoint->shard;
    if (checkpoint->result < 0) {
        checkpoint_failed(checkpoint, checkpoint->result, "writing the catalog", NULL);
        if (checkpoint->result == -ESTALE)
            shard_note_moved(shard);
        if (checkpoint->is_fatal)
            shard_fail(shard, "writing the catalog", checkpoint->result);
        catalog_fini(&checkpoint->catalog);
        checkpoint->phase = CHECKPOINT_SNAPSHOT; /* of the state at that time */
        return false;
    }
    depot_committed(shard->depot, &checkpoint->catalog);
    if (checkpoint->before_file)
        shard_checkpointed(shard, checkpoint->before_file);
    give_archivist(checkpoint, CHECKPOINT_TIDYING);
    return false;
}

static void checkpoint_count(struct checkpoint *checkpoint)
{
    struct shard_tally *tally = &checkpoint->shard->tally;
    uint64_t took_ms = (uint64_t)(checkpoint->now_ms - checkpoint->began_ms);
    counter_set(&tally->checkpoint_took_ms, took_ms);
    counter_set(&tally->checkpoint_at_ms, (uint64_t)checkpoint->now_ms);
    shared_histogram_add(&tally->checkpoint_ms, took_ms);
}

/* Finishes the checkpoint. */
static void depot_tidied(struct checkpoint *checkpoint)
{
    checkpoint->failures = 0;
    checkpoint->filters_failed = false; /* try again */
    if (checkpoint->result == 0)
        checkpoint->is_without_space = false;
    else if (checkpoint->is_without_space)
        checkpoint->retry_ms = checkpoint->now_ms + RETRY_MS;
    if (checkpoint->build.depot) {
        trouble_note(TROUBLE_CHECKPOINT, checkpoint->shard->options.index, false);
        checkpoint->figures.checkpoints++;
        atomic_store_explicit(&checkpoint->shard->checkpoints, checkpoint->figures.checkpoints,
                              memory_order_relaxed);
        checkpoint->figures.amid_merges += checkpoint->is_merging;
        checkpoint_count(checkpoint);
    }
    checkpoint->has_keys_next = checkpoint->build.depot;
    checkpoint->figures.last_ms = checkpoint->now_ms - checkpoint->began_ms;
    become_idle(checkpoint);
}

/* ---- between checkpoints: unread filters, merging of tables of keys, the reserve ---- */

/* Starts reading filters. Returns whether there are any to read. */
static bool load_filters(struct checkpoint *checkpoint)
{
    struct depot_stats stats;
    depot_stats(checkpoint->shard->depot, &stats);
    if (checkpoint->has_begun && (!stats.filters_loading || checkpoint->filters_failed))
        return false;
    checkpoint->filters = depot_hold(checkpoint->shard->depot);
    if (!checkpoint->filters)
        return false;
    checkpoint->has_begun = true;
    give_archivist(checkpoint, CHECKPOINT_FILTERS);
    return true;
}

static void filters_read(struct checkpoint *checkpoint)
{
    depot_let_go(checkpoint->filters);
    checkpoint->filters = NULL;
    checkpoint->filters_failed = checkpoint->result < 0;
    if (checkpoint->result < 0)
        checkpoint_failed(checkpoint, checkpoint->result, "reading a filter", NULL);
    else
        trouble_note(TROUBLE_MERGE, checkpoint->shard->options.index, false);
    checkpoint->phase = CHECKPOINT_IDLE;
}

/* Gives the archivist tables of keys to merge. Returns false if no merge is needed. */
static bool merge_keys(struct checkpoint *checkpoint)
{
    checkpoint->keys_ms = checkpoint->now_ms + KEYS_EVERY_MS;
    if (!checkpoint->is_merging)
        checkpoint->is_merging = depot_keys_wanted(checkpoint->shard->depot, &checkpoint->merge);
    if (!checkpoint->is_merging)
        return false;
    checkpoint->before_file = 0;
    checkpoint->began_ms = checkpoint->now_ms;
    give_archivist(checkpoint, CHECKPOINT_MERGING);
    return true;
}

/* Discards the merged data; the tables stay as they were. */
static void abandon_merge(struct checkpoint *checkpoint)
{
    if (checkpoint->is_merging)
        depot_keys_abandon(checkpoint->shard->depot, &checkpoint->merge);
    checkpoint->is_merging = false;
}

/* Handles the merging of tables of keys, or of a part of them. */
static bool keys_merged(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    int failed = checkpoint->result;
    if (failed > 0) { /* to be continued */
        become_idle(checkpoint);
        return true;
    }
    if (!failed && !depot_keys_install(depot, &checkpoint->merge))
        failed = -ENOMEM;
    if (failed) {
        checkpoint_failed(checkpoint, failed, "merging tables of keys", NULL);
        abandon_merge(checkpoint);
        checkpoint->phase = CHECKPOINT_IDLE;
        return false;
    }
    checkpoint->is_merging = false;
    trouble_note(TROUBLE_MERGE, checkpoint->shard->options.index, false);
    checkpoint->figures.keys_merges++;
    counter_add(&checkpoint->shard->tally.keys_merges, 1);
    checkpoint->phase = CHECKPOINT_SNAPSHOT;
    return true;
}

/* Decides what to do next: filters first; then, alternately, a checkpoint and a merge of tables of
 * keys; then the reserve. */
static bool step_idle(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    const struct shard_limits *limits = &shard->options.limits;
    if (checkpoint->now_ms < checkpoint->retry_ms)
        return false;
    if (load_filters(checkpoint))
        return false;
    uint32_t before = wal_checkpoint_before(
        shard->wal, limits->checkpoint_files_min ? limits->checkpoint_files_min : FILES_MIN,
        limits->checkpoint_files_max ? limits->checkpoint_files_max : FILES_MAX);
    bool for_space = !before && checkpoint->now_ms >= checkpoint->space_ms &&
                     depot_wants_checkpoint(shard->depot, is_short(checkpoint));
    if (for_space)
        checkpoint->space_ms =
            checkpoint->now_ms + (is_short(checkpoint) ? SHORT_EVERY_MS : SPACE_EVERY_MS);
    bool has_keys_next = checkpoint->has_keys_next && !checkpoint->is_without_space;
    if (checkpoint->is_without_space)
        abandon_merge(checkpoint); /* it keeps files that could be freed */
    checkpoint->has_keys_next = false;
    if (has_keys_next && merge_keys(checkpoint))
        return false;
    if (before || for_space) {
        begin_checkpoint(checkpoint, before, now);
        return checkpoint->phase == CHECKPOINT_COLLECTING;
    }
    checkpoint->before_file = 0;
    checkpoint->began_ms = checkpoint->now_ms;
    if (checkpoint->is_without_space || depot_wants_tidying(shard->depot)) {
        give_archivist(checkpoint, CHECKPOINT_TIDYING); /* is there room for the reserve? */
    } else if (checkpoint->is_merging || checkpoint->now_ms >= checkpoint->keys_ms) {
        merge_keys(checkpoint);
    }
    return false;
}

/* ---- stopping ---- */

/* Returns whether the shard stops, so that no new work begins. */
static bool is_over(const struct checkpoint *checkpoint)
{
    return checkpoint->shard->stopping || checkpoint->shard->broken;
}

/* Leaves the checkpoint unfinished. Its installed parts stay installed until the depot is
 * closed. */
static void leave_unfinished(struct checkpoint *checkpoint)
{
    checkpoint->phase = checkpoint->build.depot ? CHECKPOINT_STOPPED : CHECKPOINT_IDLE;
}

/* Stops the checkpoint. Waits only for the archivist's current work: nothing is valid before the
 * commit, and the log has everything. */
static void stop_checkpoint(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    switch (checkpoint->phase) {
    case CHECKPOINT_FILTERS:
        filters_read(checkpoint);
        break;
    case CHECKPOINT_COLLECTING:
    case CHECKPOINT_BUILDING:
        depot_abandon(depot, &checkpoint->build);
        break;
    case CHECKPOINT_MERGING:
        break;
    case CHECKPOINT_COMMITTING:
        if (checkpoint->result == 0) {
            depot_committed(depot, &checkpoint->catalog);
            break;
        }
        leave_unfinished(checkpoint);
        return;
    case CHECKPOINT_IDLE:
    case CHECKPOINT_TIDYING:
    case CHECKPOINT_STOPPED:
        break;
    case CHECKPOINT_INSTALLING:
    case CHECKPOINT_EVICTING:
    case CHECKPOINT_TOPICS:
    case CHECKPOINT_SNAPSHOT:
    case CHECKPOINT_SYNCING:
        leave_unfinished(checkpoint);
        return;
    }
    become_idle(checkpoint);
}

/* ---- stepping ---- */

bool checkpoint_step(struct checkpoint *checkpoint, struct engine_now now)
{
    if (is_over(checkpoint))
        atomic_store(&checkpoint->is_cancelled, true);
    checkpoint->now_ms = shard_process_ms(checkpoint->shard, now);
    set_pace(checkpoint);
    if (checkpoint->is_with_archivist)
        return false;
    if (is_over(checkpoint)) {
        abandon_merge(checkpoint);
        if (checkpoint->phase != CHECKPOINT_IDLE && checkpoint->phase != CHECKPOINT_STOPPED)
            stop_checkpoint(checkpoint);
        return false;
    }
    if (checkpoint->phase != CHECKPOINT_IDLE)
        activity_begin("checkpoint");
    switch (checkpoint->phase) {
    case CHECKPOINT_IDLE:
        return step_idle(checkpoint, now);
    case CHECKPOINT_FILTERS:
        filters_read(checkpoint);
        return true;
    case CHECKPOINT_COLLECTING:
        return step_collecting(checkpoint, now);
    case CHECKPOINT_BUILDING:
        return run_built(checkpoint);
    case CHECKPOINT_INSTALLING:
        return step_installing(checkpoint);
    case CHECKPOINT_EVICTING:
        return step_evicting(checkpoint, now);
    case CHECKPOINT_TOPICS:
        return step_topics(checkpoint);
    case CHECKPOINT_SNAPSHOT:
        return step_snapshot(checkpoint, now);
    case CHECKPOINT_SYNCING:
        return step_syncing(checkpoint);
    case CHECKPOINT_MERGING:
        return keys_merged(checkpoint);
    case CHECKPOINT_COMMITTING:
        return catalog_committed(checkpoint);
    case CHECKPOINT_TIDYING:
        depot_tidied(checkpoint);
        return true;
    case CHECKPOINT_STOPPED:
        break;
    }
    return false;
}

/* ---- creation ---- */

struct checkpoint *checkpoint_new(struct shard *shard)
{
    struct checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (checkpoint)
        checkpoint->shard = shard;
    return checkpoint;
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    forget_changed(checkpoint);
    abandon_merge(checkpoint);
    depot_build_fini(&checkpoint->build);
    catalog_fini(&checkpoint->catalog);
    wal_window_fini(&checkpoint->window);
    if (checkpoint->filters)
        depot_let_go(checkpoint->filters);
    free(checkpoint);
}

/* ---- state ---- */

enum checkpoint_phase checkpoint_phase(const struct checkpoint *checkpoint)
{
    return checkpoint->phase;
}

uint32_t checkpoint_installed(const struct checkpoint *checkpoint)
{
    return checkpoint->at;
}

bool checkpoint_is_busy(const struct checkpoint *checkpoint)
{
    return checkpoint->is_with_archivist || checkpoint->is_merging ||
           (checkpoint->phase != CHECKPOINT_IDLE && checkpoint->phase != CHECKPOINT_STOPPED);
}

int64_t checkpoint_next_ms(const struct checkpoint *checkpoint)
{
    bool waits = checkpoint->phase == CHECKPOINT_IDLE || checkpoint->phase == CHECKPOINT_SNAPSHOT;
    int64_t now_ms = clock_inner_ms();
    return waits && checkpoint->retry_ms > now_ms ? checkpoint->retry_ms : INT64_MAX;
}

bool checkpoint_is_without_space(const struct checkpoint *checkpoint)
{
    return checkpoint->is_without_space;
}

void checkpoint_figures(const struct checkpoint *checkpoint, struct checkpoint_figures *out)
{
    *out = checkpoint->figures;
}
