#include "local/checkpoint.h"

#include "base/clock.h"
#include "base/log.h"
#include "local/loading.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FILES_MIN = 2, /* of the log, that could go */
    FILES_MAX = 2,
    FILES_HURRY =
        4,          /* of the log ahead of the checkpoint: the archivist does not pause any more, */
    FILES_SLOW = 5, /* pushes slow down, */
    FILES_BEHIND = 9,              /* and wait */
    ALLOWED_BYTES_A_MS = 24 << 10, /* of pushes, for each file less than that */
    ALLOWED_MS = 5,
    RESERVE_FILES = 4,
    STEPS = 8192, /* entries looked at in a turn */
    INSTALLS = 2048,
    INSTALLS_AHEAD = 16, /* whose memory is asked for */
    KEPT_MAX = 512,      /* jobs whose record is damaged */
    RETRY_MS = 1000,
    KEYS_EVERY_MS = 1000,
    MERGE_ENTRIES = 2000000, /* of tables; then a checkpoint may come in between */
    SPACE_EVERY_MS = 1000,   /* also where runs written anew would not become smaller */
    RETRY_MS_MAX = 5000,
    COLD_MS = 10 * 60 * 1000,   /* who is due later is not read soon */
    PACE_BYTES_A_MS = 192 << 10 /* what a checkpoint writes beside everything else */
};

enum phase {
    IDLE = 0,
    FILTERS,    /* archivist */
    COLLECTING, /* which jobs must be written */
    BUILDING,   /* archivist */
    INSTALLING, /* they lie in the new run from now on */
    EVICTING,
    TOPICS, /* their records go to the log again */
    SNAPSHOT,
    SYNCING,    /* the log, up to the snapshot */
    MERGING,    /* archivist: tables of keys */
    COMMITTING, /* archivist */
    TIDYING,    /* archivist */
    STOPPED     /* for good, with a run that was never committed */
};

struct checkpoint {
    struct shard *shard;
    struct work work;
    enum phase phase;
    bool is_with_archivist;
    int result;
    bool is_fatal;
    uint32_t before_file; /* of the log, that it makes unnecessary; 0: none */
    struct depot_build build;
    struct engine_collect collect;
    struct engine_changed **changed; /* what the items point at; own memory */
    size_t changed_count, changed_cap;
    uint32_t at; /* item, or entry */
    struct depot_keys_merge merge;
    struct catalog catalog;
    struct wal_window window; /* of the log's files, for building */
    uint64_t needs;           /* sequence that must be synced before the commit */
    struct depot_view *filters;
    bool filters_failed;
    int64_t retry_ms, began_ms;
    int64_t keys_ms;   /* when to look at the tables of keys again: it goes over all of them and all
                          runs, and hardly anything but a checkpoint changes what it finds */
    bool is_merging;   /* tables; a checkpoint may be under way between two steps of it */
    bool is_keys_turn; /* a checkpoint has been made: tables first, else there would be ever more of
                          them while checkpoints follow each other */
    int64_t space_ms;  /* when to look for what is dead in runs again */
    uint32_t failures; /* one after the other */
    /* One failed for want of disk space: the reserve is spent, and until there is one again no push
     * is taken, and no victim. */
    bool is_without_space;
    bool has_begun;                /* the first look after the opening */
    int64_t allowance, allowed_ms; /* bytes of pushes, as of then */
    struct checkpoint_figures figures;
    /* For the archivist: go as fast as you can; leave off, the shard stops. */
    atomic_bool is_hurried, is_cancelled;
};

struct checkpoint *checkpoint_new(struct shard *shard)
{
    struct checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (checkpoint)
        checkpoint->shard = shard;
    return checkpoint;
}

static void forget_changed(struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->changed_count; i++)
        engine_changed_free(checkpoint->changed[i]);
    free(checkpoint->changed);
    checkpoint->changed = NULL;
    checkpoint->changed_count = checkpoint->changed_cap = 0;
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    forget_changed(checkpoint);
    depot_build_fini(&checkpoint->build);
    catalog_fini(&checkpoint->catalog);
    wal_window_fini(&checkpoint->window);
    if (checkpoint->filters)
        depot_let_go(checkpoint->filters);
    free(checkpoint);
}

/* ---- the archivist ---- */

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

static int build_run(struct checkpoint *checkpoint)
{
    if (checkpoint->is_without_space)
        depot_spend_reserve(checkpoint->shard->depot);
    int result = depot_build(&checkpoint->build);
    forget_changed(checkpoint); /* here, as there may be a million of them */
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

static void perform(struct work *work)
{
    struct checkpoint *checkpoint = list_entry(work, struct checkpoint, work);
    struct depot *depot = checkpoint->shard->depot;
    checkpoint->result = 0;
    if (checkpoint->phase == FILTERS)
        checkpoint->result = begin_depot(checkpoint);
    else if (checkpoint->phase == BUILDING)
        checkpoint->result = build_run(checkpoint);
    else if (checkpoint->phase == MERGING)
        checkpoint->result = depot_keys_merge(depot, &checkpoint->merge, MERGE_ENTRIES);
    else if (checkpoint->phase == COMMITTING)
        checkpoint->result = commit(checkpoint);
    else if (checkpoint->phase == TIDYING)
        checkpoint->result = tidy(checkpoint);
}

static void performed(struct work *work)
{
    list_entry(work, struct checkpoint, work)->is_with_archivist = false;
}

static void give(struct checkpoint *checkpoint, enum phase phase)
{
    checkpoint->phase = phase;
    checkpoint->is_with_archivist = true;
    checkpoint->is_fatal = false;
    checkpoint->work.perform = perform;
    checkpoint->work.done = performed;
    worker_give(checkpoint->shard->archivist, &checkpoint->work);
}

/* ---- giving up, and ending ---- */

static void complain(struct checkpoint *checkpoint, int failed, const char *during,
                     const char *error)
{
    log_event(LOG_ERROR, "checkpoint failed", LOG_NUMBER("shard", checkpoint->shard->options.index),
              LOG_TEXT("during", during),
              LOG_TEXT("error", error && *error ? error : strerror(-failed)));
    checkpoint->figures.failed++;
    checkpoint->is_without_space |= failed == -ENOSPC || failed == -EDQUOT;
    int64_t wait_ms = (int64_t)RETRY_MS << (checkpoint->failures < 5 ? checkpoint->failures++ : 5);
    checkpoint->retry_ms =
        clock_inner_ms() + (wait_ms < RETRY_MS_MAX ? wait_ms : (int64_t)RETRY_MS_MAX);
}

static void become_idle(struct checkpoint *checkpoint)
{
    forget_changed(checkpoint);
    depot_build_fini(&checkpoint->build);
    catalog_fini(&checkpoint->catalog);
    wal_window_fini(&checkpoint->window);
    checkpoint->phase = IDLE;
    checkpoint->keys_ms = 0;
    atomic_store(&checkpoint->is_hurried, false);
}

static void abandon_merge(struct checkpoint *checkpoint)
{
    if (checkpoint->is_merging)
        depot_keys_abandon(checkpoint->shard->depot, &checkpoint->merge);
    checkpoint->is_merging = false;
}

/* Before anything has happened. */
static void give_up(struct checkpoint *checkpoint, int failed, const char *during)
{
    complain(checkpoint, failed, during, checkpoint->build.error);
    depot_abandon(checkpoint->shard->depot, &checkpoint->build);
    become_idle(checkpoint);
}

/* ---- beginning ---- */

static bool reserve_changed(struct checkpoint *checkpoint)
{
    if (checkpoint->changed_count < checkpoint->changed_cap)
        return true;
    size_t cap = checkpoint->changed_cap ? checkpoint->changed_cap * 2 : 256;
    struct engine_changed **grown = realloc(checkpoint->changed, cap * sizeof(*grown));
    if (!grown)
        return false;
    checkpoint->changed = grown;
    checkpoint->changed_cap = cap;
    return true;
}

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

static bool on_item(void *ctx, const struct engine_item *item)
{
    struct checkpoint *checkpoint = ctx;
    struct depot_build *build = &checkpoint->build;
    if (!reserve_item(build) || (item->changed && !reserve_changed(checkpoint)))
        return false; /* what changed stays the engine's */
    if (item->changed)
        checkpoint->changed[checkpoint->changed_count++] = item->changed;
    build->items[build->count++] =
        (struct depot_item){.when_ms = (uint64_t)item->when_ms & 0xffffffffffffu,
                            .part = (uint64_t)item->part & 0xff,
                            .sequence = item->sequence,
                            .place = item->place,
                            .id = item->id,
                            .changed = item->changed};
    return true;
}

static bool is_victim(void *ctx, uint32_t number)
{
    const struct checkpoint *checkpoint = ctx;
    const struct depot_run *run = depot_view_run(depot_view(checkpoint->shard->depot), number);
    return run && run->is_victim;
}

static int read_log(void *ctx, struct record_place place, struct buffer *scratch, struct slice *out)
{
    struct checkpoint *checkpoint = ctx;
    return wal_read_next(checkpoint->shard->wal, place, &checkpoint->window, scratch, out);
}

static void apply(void *ctx, const void *changed, struct record *record)
{
    (void)ctx;
    engine_changed_apply(changed, record);
}

static void begin(struct checkpoint *checkpoint, uint32_t before_file, struct engine_now now)
{
    checkpoint->before_file = before_file;
    checkpoint->began_ms = now.inner_ms;
    checkpoint->build = (struct depot_build){.no_victims = checkpoint->is_without_space,
                                             .cold_ms = now.inner_ms + COLD_MS,
                                             .read_log = read_log,
                                             .apply = apply,
                                             .ctx = checkpoint};
    int failed = depot_plan(checkpoint->shard->depot, &checkpoint->build);
    if (failed) {
        complain(checkpoint, failed, "planning", checkpoint->build.error);
        become_idle(checkpoint);
        return;
    }
    checkpoint->collect = (struct engine_collect){
        .before_file = before_file, .is_victim = is_victim, .each = on_item, .ctx = checkpoint};
    checkpoint->phase = COLLECTING;
}

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
    give(checkpoint, FILTERS);
    return true;
}

/* False: no tables want to become one. */
static bool merge_keys(struct checkpoint *checkpoint, struct engine_now now)
{
    checkpoint->keys_ms = now.inner_ms + KEYS_EVERY_MS;
    if (!checkpoint->is_merging)
        checkpoint->is_merging = depot_keys_wanted(checkpoint->shard->depot, &checkpoint->merge);
    if (!checkpoint->is_merging)
        return false;
    checkpoint->before_file = 0;
    checkpoint->began_ms = now.inner_ms;
    give(checkpoint, MERGING);
    return true;
}

static bool step_idle(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    const struct shard_limits *limits = &shard->options.limits;
    if (now.inner_ms < checkpoint->retry_ms)
        return false;
    if (load_filters(checkpoint))
        return false;
    uint32_t before = wal_checkpoint_before(
        shard->wal, limits->checkpoint_files_min ? limits->checkpoint_files_min : FILES_MIN,
        limits->checkpoint_files_max ? limits->checkpoint_files_max : FILES_MAX);
    bool for_space =
        !before && now.inner_ms >= checkpoint->space_ms && depot_wants_checkpoint(shard->depot);
    if (for_space)
        checkpoint->space_ms = now.inner_ms + SPACE_EVERY_MS;
    bool is_keys_turn = checkpoint->is_keys_turn && !checkpoint->is_without_space;
    if (checkpoint->is_without_space)
        abandon_merge(checkpoint); /* it keeps files that could go */
    checkpoint->is_keys_turn = false;
    if (is_keys_turn && merge_keys(checkpoint, now))
        return false;
    if (before || for_space) {
        begin(checkpoint, before, now);
        return checkpoint->phase == COLLECTING;
    }
    checkpoint->before_file = 0;
    checkpoint->began_ms = now.inner_ms;
    if (checkpoint->is_without_space) {
        give(checkpoint, TIDYING); /* is there room for the reserve? */
    } else if (checkpoint->is_merging || now.inner_ms >= checkpoint->keys_ms) {
        merge_keys(checkpoint, now);
    }
    return false;
}

static void filters_read(struct checkpoint *checkpoint)
{
    depot_let_go(checkpoint->filters);
    checkpoint->filters = NULL;
    checkpoint->filters_failed = checkpoint->result < 0;
    if (checkpoint->result < 0)
        complain(checkpoint, checkpoint->result, "reading a filter", NULL);
    checkpoint->phase = IDLE;
}

/* ---- the steps ---- */

static bool step_collecting(struct checkpoint *checkpoint, struct engine_now now)
{
    int result = engine_collect(checkpoint->shard->engine, &checkpoint->collect, now, STEPS);
    if (result == 1)
        return true;
    if (result < 0)
        give_up(checkpoint, result, "collecting");
    else
        give(checkpoint, BUILDING);
    return false;
}

/* Jobs whose record cannot be read. One in a run stays there; but the log must stay where a record
 * of it cannot be read. */
static int keep_failed(struct checkpoint *checkpoint)
{
    const struct shard *shard = checkpoint->shard;
    const struct depot_build *build = &checkpoint->build;
    for (size_t i = build->slots; i < build->count; i++)
        if (!record_place_is_run(build->items[i].place))
            return -EIO;
    if (build->failed > KEPT_MAX)
        return -EIO;
    if (wal_has_room(shard->wal, build->failed * (size_t)ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER))
        return -EAGAIN;
    for (size_t i = build->slots; i < build->count; i++)
        engine_keep(shard->engine, build->items[i].id, build->items[i].place);
    return 0;
}

static bool built(struct checkpoint *checkpoint)
{
    struct depot_build *build = &checkpoint->build;
    int failed = checkpoint->result;
    if (!failed && build->failed)
        failed = keep_failed(checkpoint);
    if (!failed && !depot_install(checkpoint->shard->depot, build))
        failed = -ENOMEM;
    if (failed) {
        give_up(checkpoint, failed, "building a run");
        return false;
    }
    checkpoint->at = 0;
    checkpoint->phase = INSTALLING;
    return true;
}

static void install(struct checkpoint *checkpoint, uint32_t slot)
{
    struct shard *shard = checkpoint->shard;
    const struct depot_item *item = &checkpoint->build.items[slot];
    struct record_place place = depot_build_place(&checkpoint->build, slot);
    enum job_part part;
    if (item->id) {
        if (!engine_install(shard->engine, item->id, item->place, place, (enum job_part)item->part,
                            checkpoint->before_file))
            depot_release(shard->depot, place, &part);
    } else if (!depot_is_alive(shard->depot, item->place)) {
        depot_release(shard->depot, place, &part);
    } else {
        engine_relocate(shard->engine, item->key_low, item->place, place);
    }
}

static bool step_installing(struct checkpoint *checkpoint)
{
    const struct depot_build *build = &checkpoint->build;
    for (int left = INSTALLS; left && checkpoint->at < build->slots; left--) {
        if (checkpoint->at + INSTALLS_AHEAD < build->slots)
            engine_install_soon(checkpoint->shard->engine,
                                build->items[checkpoint->at + INSTALLS_AHEAD].id);
        install(checkpoint, checkpoint->at++);
    }
    if (checkpoint->at < checkpoint->build.slots)
        return true;
    if (!depot_installed(checkpoint->shard->depot, &checkpoint->build))
        return false; /* no memory: the next turn tries again */
    loading_view_changed(checkpoint->shard->loading);
    checkpoint->at = 0;
    checkpoint->phase = EVICTING;
    return true;
}

static bool step_evicting(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    if (shard->listings)
        return false;
    if (!engine_evict_some(shard->engine, &checkpoint->at,
                           loading_keep_until_ms(shard->loading, now),
                           loading_ready_max(shard->loading), now, STEPS))
        return true;
    topics_begin(shard);
    checkpoint->phase = TOPICS;
    return true;
}

/* The log has no room, nor the disk for its next file: that needs what the reserve holds. */
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

static bool step_topics(struct checkpoint *checkpoint)
{
    if (topics_is_busy(checkpoint->shard)) {
        find_room(checkpoint);
        return false;
    }
    checkpoint->phase = SNAPSHOT;
    return true;
}

static struct catalog_topic *stored_topics(const struct shard *shard, uint32_t *count)
{
    uint32_t at = 0;
    struct catalog_topic *topics =
        calloc(engine_topic_count(shard->engine) + (size_t)1, sizeof *topics);
    *count = 0;
    while (topics && engine_stored_next(shard->engine, &at, &topics[*count].name,
                                        topics[*count].stored, &topics[*count].dead_bytes))
        ++*count;
    return topics;
}

static bool step_snapshot(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    const struct catalog *old = depot_catalog(shard->depot);
    uint32_t count, first = old->log_first;
    uint64_t sequence = old->log_first_sequence;
    if (now.inner_ms < checkpoint->retry_ms)
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
        complain(checkpoint, failed, "snapshot", NULL);
        return false;
    }
    checkpoint->needs = wal_open_sequence(shard->wal) - wal_open_is_empty(shard->wal);
    checkpoint->phase = SYNCING;
    return true;
}

static bool step_syncing(struct checkpoint *checkpoint)
{
    struct shard *shard = checkpoint->shard;
    if (wal_synced(shard->wal) < checkpoint->needs) {
        shard_sync(shard);
        return false;
    }
    give(checkpoint, COMMITTING);
    return false;
}

static bool merged(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    int failed = checkpoint->result;
    if (failed > 0) { /* to be gone on with */
        become_idle(checkpoint);
        return true;
    }
    if (!failed && !depot_keys_install(depot, &checkpoint->merge))
        failed = -ENOMEM;
    if (failed) {
        complain(checkpoint, failed, "merging tables of keys", NULL);
        abandon_merge(checkpoint);
        checkpoint->phase = IDLE;
        return false;
    }
    checkpoint->is_merging = false;
    checkpoint->figures.keys_merges++;
    checkpoint->phase = SNAPSHOT;
    return true;
}

static bool committed(struct checkpoint *checkpoint)
{
    struct shard *shard = checkpoint->shard;
    if (checkpoint->result < 0) {
        complain(checkpoint, checkpoint->result, "writing the catalog", NULL);
        if (checkpoint->is_fatal)
            shard_fail(shard, "writing the catalog");
        catalog_fini(&checkpoint->catalog);
        checkpoint->phase = SNAPSHOT; /* what is true by then */
        return false;
    }
    depot_committed(shard->depot, &checkpoint->catalog);
    if (checkpoint->before_file)
        wal_checkpointed(shard->wal, checkpoint->before_file);
    loading_view_changed(shard->loading);
    give(checkpoint, TIDYING);
    return false;
}

static void tidied(struct checkpoint *checkpoint, struct engine_now now)
{
    checkpoint->failures = 0;
    checkpoint->filters_failed = false; /* tried again */
    if (checkpoint->result == 0)
        checkpoint->is_without_space = false;
    else if (checkpoint->is_without_space)
        checkpoint->retry_ms = now.inner_ms + RETRY_MS;
    if (checkpoint->build.depot)
        checkpoint->figures.checkpoints++;
    checkpoint->is_keys_turn = checkpoint->build.depot;
    checkpoint->figures.last_ms = now.inner_ms - checkpoint->began_ms;
    become_idle(checkpoint);
}

/* A stop does not wait for more than what the archivist has in hand: nothing counts before the
 * commit, and the log has it all. */
static void stop(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    bool is_build = checkpoint->build.depot != NULL;
    switch (checkpoint->phase) {
    case FILTERS:
        filters_read(checkpoint);
        break;
    case COLLECTING:
    case BUILDING:
        depot_abandon(depot, &checkpoint->build);
        break;
    case MERGING:
        break;
    case COMMITTING:
        if (checkpoint->result == 0) {
            depot_committed(depot, &checkpoint->catalog);
            break;
        }
        checkpoint->phase = is_build ? STOPPED : IDLE;
        return;
    case IDLE:
    case TIDYING:
    case STOPPED:
        break;
    case INSTALLING:
    case EVICTING:
    case TOPICS:
    case SNAPSHOT:
    case SYNCING:
        checkpoint->phase = is_build ? STOPPED : IDLE;
        return;
    }
    become_idle(checkpoint);
}

bool checkpoint_step(struct checkpoint *checkpoint, struct engine_now now)
{
    if (checkpoint->shard->stopping || checkpoint->shard->broken)
        atomic_store(&checkpoint->is_cancelled, true);
    if (checkpoint->is_with_archivist)
        return false;
    if (checkpoint->shard->stopping || checkpoint->shard->broken) {
        abandon_merge(checkpoint);
        if (checkpoint->phase != IDLE && checkpoint->phase != STOPPED)
            stop(checkpoint);
        return false;
    }
    switch (checkpoint->phase) {
    case IDLE:
        return step_idle(checkpoint, now);
    case FILTERS:
        filters_read(checkpoint);
        return true;
    case COLLECTING:
        return step_collecting(checkpoint, now);
    case BUILDING:
        return built(checkpoint);
    case INSTALLING:
        return step_installing(checkpoint);
    case EVICTING:
        return step_evicting(checkpoint, now);
    case TOPICS:
        return step_topics(checkpoint);
    case SNAPSHOT:
        return step_snapshot(checkpoint, now);
    case SYNCING:
        return step_syncing(checkpoint);
    case MERGING:
        return merged(checkpoint);
    case COMMITTING:
        return committed(checkpoint);
    case TIDYING:
        tidied(checkpoint, now);
        return true;
    case STOPPED:
        break;
    }
    return false;
}

bool checkpoint_is_busy(const struct checkpoint *checkpoint)
{
    return checkpoint->is_with_archivist || checkpoint->is_merging ||
           (checkpoint->phase != IDLE && checkpoint->phase != STOPPED);
}

int64_t checkpoint_next_ms(const struct checkpoint *checkpoint)
{
    bool waits = checkpoint->phase == IDLE || checkpoint->phase == SNAPSHOT;
    return waits && checkpoint->retry_ms > clock_inner_ms() ? checkpoint->retry_ms : INT64_MAX;
}

/* The log's files that no checkpoint has made unnecessary; 0 where none is under way. */
static uint32_t files_ahead(const struct checkpoint *checkpoint)
{
    uint32_t first = depot_catalog(checkpoint->shard->depot)->log_first;
    bool goes_on = checkpoint->phase != IDLE && checkpoint->phase != STOPPED;
    return goes_on ? wal_current_file(checkpoint->shard->wal) - (first ? first : 1) : 0;
}

bool checkpoint_takes(struct checkpoint *checkpoint, size_t bytes)
{
    uint32_t files = files_ahead(checkpoint);
    if (files >= FILES_HURRY)
        atomic_store(&checkpoint->is_hurried, true);
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

bool checkpoint_is_without_space(const struct checkpoint *checkpoint)
{
    return checkpoint->is_without_space;
}

void checkpoint_figures(const struct checkpoint *checkpoint, struct checkpoint_figures *out)
{
    *out = checkpoint->figures;
}
