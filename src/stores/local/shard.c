/*
 * The step of a shard, which drives all its parts, and its opening and stopping. Commands arrive
 * through shard_submit.
 */
#include "base/clock.h"
#include "base/clock_restore.h"
#include "base/log.h"
#include "local/admission.h"
#include "local/awaits.h"
#include "local/batch_mail.h"
#include "local/checkpoint.h"
#include "local/preload.h"
#include "local/recovery.h"
#include "local/scan.h"
#include "local/shard_feed.h"
#include "net/activity.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UPKEEP_RETRY_MS = 1000,
    HOLDS_MAX = 4 /* steps that a commit waits for further commands */
};

/* ---- the log ---- */

/* Checks whether the path of the directory still leads to it, if there is a reason for doubt. */
static void look_for_path(struct shard *shard, int64_t now_ms)
{
    bool seen = atomic_load_explicit(&shard->moved_seen, memory_order_relaxed);
    bool is_time = shard->moved && now_ms >= shard->moved_check_ms;
    if (shard->committing || shard->broken || (!seen && !is_time))
        return;
    atomic_store_explicit(&shard->moved_seen, false, memory_order_relaxed);
    if (!wal_look(shard->wal) || !depot_leads(shard->depot)) {
        shard_note_moved(shard);
        return;
    }
    if (!shard->moved)
        return;
    shard->moved = false;
    log_event(LOG_INFO, "data directory is back: changes are accepted again",
              LOG_NUMBER("shard", shard->options.index), LOG_TEXT("path", shard->options.dir));
}

/* Returns whether to delay the commit. A commit begins once polling the sockets has brought no new
 * commands, so that waiting commands join the same batch. */
static bool hold_commit(struct shard *shard)
{
    bool brought = shard->submitted != shard->submitted_before;
    shard->submitted_before = shard->submitted;
    if (shard->committing || !brought || shard->holds == HOLDS_MAX) {
        shard->holds = 0;
        return false;
    }
    shard->holds++;
    return true;
}

static void upkeep_perform(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, upkeep_work);
    shard->upkeep_error = wal_upkeep(shard->wal);
}

static void upkeep_done(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, upkeep_work);
    shard->keeping_up = false;
    shard->log_is_short = shard->upkeep_error == -ENOSPC || shard->upkeep_error == -EDQUOT;
    wal_upkept(shard->wal);
    struct wal_stats stats;
    wal_stats(shard->wal, &stats);
    if (stats.broken) {
        shard_fail(shard, "upkeep", shard->upkeep_error);
    } else if (shard->upkeep_error) {
        shard->upkeep_retry_ms = clock_inner_ms() + UPKEEP_RETRY_MS;
        log_event(LOG_WARN, "log upkeep failed", LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("error", strerror(-shard->upkeep_error)));
    }
}

/* Gives the log's upkeep to the librarian, if any is needed. */
static void upkeep_start(struct shard *shard, int64_t now_ms)
{
    /* The little space that is left belongs to the run that frees old files, except for the room in
     * the log that it needs. */
    bool yields = checkpoint_is_without_space(shard->checkpoint) &&
                  checkpoint_is_busy(shard->checkpoint) &&
                  !(topics_is_busy(shard) && shard->topics_want_room);
    wal_want_spares(shard->wal, !checkpoint_is_without_space(shard->checkpoint));
    if (shard->keeping_up || shard->broken || yields || now_ms < shard->upkeep_retry_ms ||
        !wal_wants_upkeep(shard->wal))
        return;
    shard->keeping_up = true;
    worker_give(shard->librarian, &shard->upkeep_work);
}

static void step_perform(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, step_work);
    shard->options.stepped(shard->options.ctx);
}

static void step_done(struct work *work)
{
    list_entry(work, struct shard, step_work)->notifying_step = false;
}

/* Stores a step of the wall clock on the librarian's thread. */
static void step_notify(struct shard *shard)
{
    if (!shard->stepped || shard->notifying_step)
        return;
    shard->stepped = false;
    shard->notifying_step = true;
    worker_give(shard->librarian, &shard->step_work);
}

/* ---- the step ---- */

/* Runs due timers. Returns whether more is due now than one step may process. */
static bool advance_engine(struct shard *shard, struct engine_now now)
{
    bool stepped = now.skew_ms != shard->engine_skew_ms;
    if (shard->broken || (engine_next_ms(shard->engine) > now.inner_ms && !stepped))
        return false;
    if (!shard_has_timers_room(shard, 0))
        return false; /* a commit makes room, or on a full disk the next upkeep */
    shard->engine_skew_ms = now.skew_ms;
    activity_begin("due jobs");
    engine_advance(shard->engine, now, shard_timers_per_step(shard));
    return engine_next_ms(shard->engine) <= now.inner_ms;
}

/* Returns whether no work is in progress and no call waits, so that a stop may end. */
static bool shard_is_quiet(const struct shard *shard)
{
    return !shard->lookups && !checkpoint_is_busy(shard->checkpoint) &&
           !preload_is_busy(shard->preload) && list_is_empty(&shard->waiting) &&
           list_is_empty(&shard->soon) && list_is_empty(&shard->heavy) &&
           list_is_empty(&shard->parked) && list_is_empty(&shard->held) &&
           list_is_empty(&shard->scans) && !shard->mail_under_way && events_is_empty(shard) &&
           !shard->readings && !shard->committing && !shard->keeping_up && !shard->stepped &&
           !shard->notifying_step && !topics_is_busy(shard) &&
           (shard->broken || wal_open_is_empty(shard->wal));
}

/* Logs when pushes are refused for lack of disk space, and when they are accepted again. */
static void notify_accepting(struct shard *shard, bool accepting, bool is_full)
{
    const char *error = wal_error(shard->wal);
    if (accepting == atomic_load_explicit(&shard->accepting, memory_order_relaxed))
        return;
    atomic_store_explicit(&shard->accepting, accepting, memory_order_relaxed);
    if (accepting)
        log_event(LOG_INFO, "pushes are accepted again", LOG_NUMBER("shard", shard->options.index));
    else
        log_event(LOG_ERROR,
                  is_full ? "disk is full: pushes are rejected"
                          : "no log file can be created: pushes are rejected",
                  LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("error", error ? error : strerror(is_full ? ENOSPC : EIO)));
}

/* Publishes figures for shard_figures, which any thread may call. */
static void publish_figures(struct shard *shard)
{
    struct wal_stats stats;
    struct depot_stats stored;
    wal_stats(shard->wal, &stats);
    depot_stats(shard->depot, &stored);
    atomic_store_explicit(&shard->bytes_on_disk, stats.bytes_on_disk + stored.bytes_on_disk,
                          memory_order_relaxed);
    counter_set(&shard->tally.log_bytes, stats.bytes_on_disk);
    counter_set(&shard->tally.log_files, stats.files);
    for (size_t i = 0; i < QUEUE_DROPS; i++)
        counter_set(&shard->tally.dropped[i], engine_dropped(shard->engine, (enum queue_drop)i));
    atomic_store_explicit(&shard->cold_jobs, stored.slots_alive, memory_order_relaxed);
    atomic_store_explicit(&shard->runs, stored.runs, memory_order_relaxed);
    atomic_store_explicit(&shard->spare_bytes, engine_spare_bytes(shard->engine),
                          memory_order_relaxed);
    bool is_full = stats.full || checkpoint_is_without_space(shard->checkpoint);
    notify_accepting(shard, !stats.stuck && !is_full, is_full);
}

/* Writes the topics' records last before a stop, so that totals without other records, such as the
 * number of nacks, are exact after a clean stop. */
static void keep_totals(struct shard *shard)
{
    shard->totals_kept = true;
    if (shard->broken)
        return;
    topics_begin(shard);
    reactor_iterate_again(shard->reactor);
}

static void stop_if_quiet(struct shard *shard)
{
    if (shard->stopping && !shard->totals_kept && shard_is_quiet(shard))
        keep_totals(shard);
    if (shard->stopping && shard->stopped && shard_is_quiet(shard)) {
        void (*stopped)(void *ctx) = shard->stopped;
        shard->stopped = NULL;
        stopped(shard->stopped_ctx);
    }
}

/* Returns whether nothing more happens before the clock moves. */
static bool shard_is_settled(struct shard *shard, struct engine_now now)
{
    return engine_next_ms(shard->engine) > now.inner_ms &&
           shard->engine_skew_ms == shard->skew_ms && !preload_is_busy(shard->preload) &&
           preload_next_ms(shard->preload) > now.inner_ms && !shard->lookups &&
           list_is_empty(&shard->parked) && !batch_mail_is_busy(shard) && !shard_has_ready(shard) &&
           !(shard->settles_kept && (shard->stepped || shard->notifying_step));
}

static void settle_step(struct shard *shard, struct engine_now now)
{
    if (!shard->settled || !(shard->broken || shard_is_settled(shard, now)))
        return;
    int64_t next_ms = engine_next_ms(shard->engine), load_ms = preload_next_ms(shard->preload);
    shard_settled *settled = shard->settled;
    shard->settled = NULL;
    settled(shard->settled_ctx, load_ms < next_ms ? load_ms : next_ms,
            engine_happened(shard->engine));
}

void shard_settle(struct shard *shard, bool keeps, shard_settled *settled, void *ctx)
{
    assert(!shard->settled);
    shard->settled = settled;
    shard->settled_ctx = ctx;
    shard->settles_kept = keeps && shard->options.stepped;
    shard->stepped |= shard->settles_kept;
    reactor_iterate_again(shard->reactor);
}

/* Reports activity, once per step. */
static void active_notify(struct shard *shard)
{
    if (!shard->options.active || shard->activity == shard->activity_reported)
        return;
    shard->activity_reported = shard->activity;
    shard->options.active(shard->options.ctx);
}

/* Returns when the shard needs its next step, by the process's clock. */
static int64_t next_step_ms(struct shard *shard, struct engine_now now, bool busy)
{
    int64_t process_ms = shard_process_ms(shard, now);
    int64_t next_ms = shard->broken ? INT64_MAX : engine_next_ms(shard->engine);
    int64_t load_ms = shard->broken ? INT64_MAX : preload_next_ms(shard->preload);
    int64_t at_ms = INT64_MAX;
    if (next_ms <= now.inner_ms &&
        !busy) { /* waits for room: the end of a commit or the retry wakes it */
        next_ms = INT64_MAX;
        at_ms = shard->committing ? INT64_MAX : process_ms + UPKEEP_RETRY_MS;
    }
    int64_t others_ms[] = {
        clock_process_ms(shard->clock, next_ms < load_ms ? next_ms : load_ms),
        list_is_empty(&shard->held) ? INT64_MAX : process_ms + 1,
        shard->broken || shard->committing ? INT64_MAX : wal_sync_due_ms(shard->wal),
        shard->moved && !shard->broken ? shard->moved_check_ms : INT64_MAX,
        shard->broken ? INT64_MAX : checkpoint_next_ms(shard->checkpoint),
        batch_mail_next_ms(shard),
        !shard->keeping_up && shard->upkeep_retry_ms > process_ms ? shard->upkeep_retry_ms
                                                                  : INT64_MAX};
    for (size_t i = 0; i < sizeof others_ms / sizeof others_ms[0]; i++)
        if (others_ms[i] < at_ms)
            at_ms = others_ms[i];
    return at_ms;
}

/* Executes a shard step at the end of a reactor iteration; `ctx` is the shard. */
static bool shard_step(void *ctx)
{
    struct shard *shard = ctx;
    struct engine_now now = shard_now(shard);
    if (!shard->has_run) /* all shards have recovered: consumers can connect from about now on */
        engine_keep_leases(shard->engine, now.inner_ms + shard->options.local->lease_grace_ms);
    shard->has_run = true;
    look_for_path(shard, shard_process_ms(shard, now));
    shard_feed_look(shard);
    bool busy = advance_engine(shard, now);
    scan_trim(shard);
    awaits_drop_failed(shard);
    if (shard->ends_awaits)
        awaits_end_all(shard, QUEUE_UNAVAILABLE);
    shard->ends_awaits = false;
    bool more = scans_step(shard);
    if (!shard->broken)
        more |= topics_step(shard);
    more |= preload_step(shard->preload, now);
    more |= checkpoint_step(shard->checkpoint, now);
    admission_step(shard);
    shard_notify_all(shard);
    more |= shard->feed_waiting && shard_feed_step(shard);
    bool holds = hold_commit(shard);
    if (!holds)
        shard_commit(shard, false);
    more |= batch_mail_step(shard, shard_process_ms(shard, now));
    upkeep_start(shard, shard_process_ms(shard, now));
    step_notify(shard);
    publish_figures(shard);
    stop_if_quiet(shard);
    settle_step(shard, now);
    active_notify(shard);
    deadline_set(shard->deadline, next_step_ms(shard, now, busy));
    return busy || holds || shard_has_ready(shard) || (more && !shard->committing);
}

/* ---- stop, and figures for other threads ---- */

struct worker *shard_helper(const struct shard *shard)
{
    return shard->librarian;
}

void shard_stop(struct shard *shard, void (*stopped)(void *ctx), void *ctx)
{
    shard->stopping = true;
    awaits_end_all(shard, QUEUE_STOPPING);
    shard->stopped = stopped;
    shard->stopped_ctx = ctx;
}

void shard_figures(struct shard *shard, struct shard_figures *out)
{
    const struct shard_tally *tally = &shard->tally;
    bool leads = wal_leads(shard->wal) && depot_leads(shard->depot);
    if (!leads)
        atomic_store_explicit(&shard->moved_seen, true, memory_order_relaxed);
    *out = (struct shard_figures){
        .bytes_on_disk = atomic_load_explicit(&shard->bytes_on_disk, memory_order_relaxed),
        .cold_jobs = atomic_load_explicit(&shard->cold_jobs, memory_order_relaxed),
        .runs = atomic_load_explicit(&shard->runs, memory_order_relaxed),
        .checkpoints = atomic_load_explicit(&shard->checkpoints, memory_order_relaxed),
        .checkpoints_failed =
            atomic_load_explicit(&shard->checkpoints_failed, memory_order_relaxed),
        .spare_bytes = atomic_load_explicit(&shard->spare_bytes, memory_order_relaxed),
        .moved = !leads || atomic_load_explicit(&shard->moved, memory_order_relaxed),
        .healthy = atomic_load_explicit(&shard->healthy, memory_order_relaxed),
        .accepting = atomic_load_explicit(&shard->accepting, memory_order_relaxed),
        .log_bytes = counter_get(&tally->log_bytes),
        .log_files = counter_get(&tally->log_files),
        .disk_free_bytes = counter_get(&tally->disk_free_bytes),
        .disk_bytes = counter_get(&tally->disk_bytes),
        .log_records = counter_get(&tally->log_records),
        .log_written_bytes = counter_get(&tally->log_written_bytes),
        .log_syncs = counter_get(&tally->log_syncs),
        .keys_merges = counter_get(&tally->keys_merges),
        .checkpoint_took_ms = (int64_t)counter_get(&tally->checkpoint_took_ms),
        .checkpoint_at_ms = (int64_t)counter_get(&tally->checkpoint_at_ms),
        .lookups_found = counter_get(&tally->lookups_found),
        .lookups_absent = counter_get(&tally->lookups_absent),
        .filter_misses = counter_get(&tally->filter_misses),
        .recovery_ms = (int64_t)counter_get(&tally->recovery_ms)};
    for (size_t i = 0; i < QUEUE_DROPS; i++)
        out->dropped[i] = counter_get(&tally->dropped[i]);
    for (int from = 0; from < SHARD_READS; from++)
        out->reads[from] = counter_get(&tally->reads[from]);
}

void shard_times(const struct shard *shard, struct shard_times *sum)
{
    shared_histogram_merge(&sum->sync_us, &shard->tally.sync_us);
    shared_histogram_merge(&sum->batch_bytes, &shard->tally.batch_bytes);
    shared_histogram_merge(&sum->batch_records, &shard->tally.batch_records);
    shared_histogram_merge(&sum->checkpoint_ms, &shard->tally.checkpoint_ms);
}

/* ---- open and close ---- */

/* Does nothing: the step that follows is the purpose of the deadline. */
static void on_deadline(void *ctx)
{
    (void)ctx;
}

static void shard_init(struct shard *shard, const struct shard_options *options,
                       struct reactor *reactor)
{
    shard->options = *options;
    shard->reactor = reactor;
    shard->body_bytes_max = options->local->body_bytes_max;
    shard->clock = options->local->clock ? options->local->clock : &clock_process;
    shard->skew_ms = shard->engine_skew_ms = clock_skew_ms_since(shard->clock, options->skew_ms);
    shard_core_init(shard);
    list_init(&shard->parked);
    list_init(&shard->held);
    list_init(&shard->scans);
    shard->upkeep_work.perform = upkeep_perform;
    shard->upkeep_work.done = upkeep_done;
    shard->step_work.perform = step_perform;
    shard->step_work.done = step_done;
    atomic_store(&shard->healthy, true);
    atomic_store(&shard->accepting, true);
}

static int start_helpers(struct shard *shard, char *error, size_t error_bytes)
{
    shard->committer = worker_new(shard->reactor, "committer");
    shard->librarian = worker_new(shard->reactor, "librarian");
    shard->scout = worker_new(shard->reactor, "scout");
    shard->archivist = worker_new(shard->reactor, "archivist");
    shard->deadline = deadline_new(shard->reactor, on_deadline, shard);
    shard->checkpoint = checkpoint_new(shard);
    shard->preload = preload_new(shard);
    if (!shard->committer || !shard->librarian || !shard->scout || !shard->archivist ||
        !shard->deadline || !shard->checkpoint || !shard->preload) {
        snprintf(error, error_bytes,
                 "cannot start the shard's helper threads: out of memory or of threads");
        return -ENOMEM;
    }
    return preload_begin(shard->preload, error, error_bytes);
}

int shard_open(const struct shard_options *options, struct reactor *reactor, struct shard **out,
               struct shard_recovered *recovered, char *error, size_t error_bytes)
{
    struct shard *shard = calloc(1, sizeof *shard);
    if (!shard) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    shard_init(shard, options, reactor);
    shard->dir = strdup(options->dir);
    shard->options.dir = shard->dir;
    shard->watches = watch_table_new();
    shard->awaits = awaits_new();
    shard->feed = shard_feed_new(shard);
    int failed = -ENOMEM;
    if (shard->dir && shard->watches && shard->awaits && shard->feed && completions_reserve(shard))
        failed = shard_recover(shard, recovered, error, error_bytes);
    else
        snprintf(error, error_bytes, "out of memory");
    if (!failed)
        failed = start_helpers(shard, error, error_bytes);
    if (failed) {
        shard_free(shard);
        return failed;
    }
    counter_set(&shard->tally.recovery_ms, (uint64_t)recovered->took_ms);
    shard_look_at_room(shard, clock_boot_us());
    shard->clock_watch = clock_watch_new(reactor);
    reactor_at_iteration_end(reactor, shard_step, shard);
    *out = shard;
    return 0;
}

void shard_free(struct shard *shard)
{
    if (!shard)
        return;
    worker_free(shard->committer);
    worker_free(shard->librarian);
    worker_free(shard->scout);
    worker_free(shard->archivist);
    deadline_free(shard->deadline);
    clock_watch_free(shard->clock_watch);
    shard_core_fini(shard);
    awaits_free(shard->awaits);
    shard_feed_free(shard->feed);
    checkpoint_free(shard->checkpoint);
    preload_free(shard->preload);
    if (shard->wal)
        wal_close(shard->wal);
    if (shard->depot)
        depot_close(shard->depot);
    buffer_fini(&shard->job_bytes);
    engine_free(shard->engine);
    watch_table_free(shard->watches);
    free(shard->dir);
    free(shard);
}
