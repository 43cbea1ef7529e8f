#include "base/clock.h"
#include "base/log.h"
#include "local/checkpoint.h"
#include "local/large_push.h"
#include "local/lookup.h"
#include "local/preload.h"
#include "local/scan.h"
#include "queue/copy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ADVANCE_AT_ONCE = 512, /* timers a turn */
    UPKEEP_RETRY_MS = 1000,
    ASTRAY_LOOK_MS = 500,
    HOLDS_MAX = 4,     /* turns a commit waits for more to come */
    ROUNDS_MAX = 8,    /* of replies in one turn: what they ask for may be answered at once */
    SKEW_NOISE_MS = 2, /* both clocks are cut to milliseconds */
    SKEW_WORTH_TELLING_MS = 100
};

/* ---- time ---- */

/* Both at one moment: a thread that is held up between the two would take that for a step. */
static struct engine_now read_clocks(void)
{
    enum { TRIES = 5 };
    struct engine_now now;
    for (int i = 0; i < TRIES; i++) {
        now.inner_ms = clock_inner_ms();
        now.wall_ms = clock_wall_ms();
        if (clock_inner_ms() - now.inner_ms <= 1)
            break;
    }
    now.skew_ms = 0;
    return now;
}

struct engine_now shard_now(struct shard *shard)
{
    struct engine_now now = read_clocks();
    int64_t step_ms = now.wall_ms - now.inner_ms - shard->skew_ms;
    if (step_ms > SKEW_NOISE_MS || step_ms < -SKEW_NOISE_MS) {
        if (step_ms > SKEW_WORTH_TELLING_MS || step_ms < -SKEW_WORTH_TELLING_MS)
            log_event(LOG_WARN, "wall clock stepped", LOG_NUMBER("shard", shard->options.index),
                      LOG_NUMBER("step_ms", step_ms));
        shard->skew_ms += step_ms;
        shard->stepped = shard->options.stepped != NULL;
    }
    now.skew_ms = shard->skew_ms;
    return now;
}

/* ---- the log ---- */

void shard_fail(struct shard *shard, const char *what, int error)
{
    if (shard->broken)
        return;
    shard->broken = true;
    atomic_store(&shard->healthy, false);
    log_event(LOG_ERROR, "log failed", LOG_NUMBER("shard", shard->options.index),
              LOG_TEXT("during", what),
              LOG_TEXT("error", wal_error(shard->wal) ? wal_error(shard->wal) : strerror(-error)));
    completions_fail(shard, UINT64_MAX, QUEUE_UNAVAILABLE);
    shard->options.failed(shard->options.ctx);
}

void shard_go_astray(struct shard *shard)
{
    shard->astray_look_ms = clock_inner_ms() + ASTRAY_LOOK_MS;
    if (shard->astray)
        return;
    shard->astray = true;
    log_event(LOG_ERROR, "data directory moved: its path leads elsewhere, changes are refused",
              LOG_NUMBER("shard", shard->options.index), LOG_TEXT("path", shard->options.dir));
}

static void look_for_path(struct shard *shard, int64_t now_ms)
{
    bool seen = atomic_load_explicit(&shard->astray_seen, memory_order_relaxed);
    bool is_time = shard->astray && now_ms >= shard->astray_look_ms;
    if (shard->committing || shard->broken || (!seen && !is_time))
        return;
    atomic_store_explicit(&shard->astray_seen, false, memory_order_relaxed);
    if (!wal_look(shard->wal) || !depot_leads(shard->depot)) {
        shard_go_astray(shard);
        return;
    }
    if (!shard->astray)
        return;
    shard->astray = false;
    log_event(LOG_INFO, "data directory is back: changes are accepted again",
              LOG_NUMBER("shard", shard->options.index), LOG_TEXT("path", shard->options.dir));
}

static void perform_commit(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, commit_work);
    shard->commit_error = wal_commit(shard->wal);
}

static void commit_done(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, commit_work);
    shard->committing = false;
    shard->durable = wal_committed(shard->wal);
    if (shard->commit_error)
        shard_fail(shard, "commit", shard->commit_error);
    if (!shard->broken && wal_is_astray(shard->wal)) {
        shard_go_astray(shard);
        completions_fail(shard, shard->durable, QUEUE_DIRECTORY_MOVED);
    }
}

static void commit_start(struct shard *shard)
{
    if (shard->committing || shard->broken || !wal_seal(shard->wal))
        return;
    shard->committing = true;
    worker_give(shard->committer, &shard->commit_work);
}

void shard_sync(struct shard *shard)
{
    if (shard->committing || shard->broken || !wal_seal_sync(shard->wal))
        return;
    shard->committing = true;
    worker_give(shard->committer, &shard->commit_work);
}

/* A commit begins once a look at the sockets brought nothing new: what waits there already may as
 * well come along. */
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

static void perform_upkeep(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, upkeep_work);
    shard->upkeep_error = wal_upkeep(shard->wal);
}

static void upkeep_done(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, upkeep_work);
    shard->keeping_up = false;
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

static void upkeep_start(struct shard *shard, int64_t now_ms)
{
    /* What little space there is goes to the run that lets old files go, but for the room in the
     * log that takes. */
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

static void perform_step(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, step_work);
    shard->options.stepped(shard->options.ctx);
}

static void step_done(struct work *work)
{
    list_entry(work, struct shard, step_work)->telling_step = false;
}

static void tell_step(struct shard *shard)
{
    if (!shard->stepped || shard->telling_step)
        return;
    shard->stepped = false;
    shard->telling_step = true;
    worker_give(shard->librarian, &shard->step_work);
}

void shard_init_works(struct shard *shard)
{
    shard->commit_work.perform = perform_commit;
    shard->commit_work.done = commit_done;
    shard->upkeep_work.perform = perform_upkeep;
    shard->upkeep_work.done = upkeep_done;
    shard->step_work.perform = perform_step;
    shard->step_work.done = step_done;
}

/* ---- commands ---- */

static void park(struct shard *shard, struct list *where, struct command *copy,
                 struct queue_reply_to reply_to, struct absent *absent)
{
    struct parked *parked = malloc(sizeof *parked);
    if (!parked || !copy) {
        free(parked);
        free(copy);
        free(absent);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *parked = (struct parked){.command = copy, .reply_to = reply_to, .absent = absent};
    list_add_last(where, &parked->list);
}

/* What it adds to the log, about. */
static size_t bytes_of(const struct command *command)
{
    enum { BESIDE = 64 };
    size_t bytes = 0;
    for (size_t i = 0; i < command->count; i++)
        bytes += command->pushes[i].body.len + command->pushes[i].meta.len + BESIDE;
    return bytes;
}

/* OK, or why it is not carried out: as it is, or as things are. */
static enum queue_status refusal(const struct shard *shard, const struct command *command)
{
    const bool looks_only =
        command->kind == COMMAND_GET || command->kind == COMMAND_LIST ||
        command->kind == COMMAND_TOPICS ||
        (command->kind == COMMAND_TOPIC && command->topic.verb == QUEUE_TOPIC_GET);
    if (command->status != QUEUE_OK)
        return command->status;
    if (shard->broken)
        return QUEUE_UNAVAILABLE;
    return shard->astray && !looks_only ? QUEUE_DIRECTORY_MOVED : QUEUE_OK;
}

static bool is_held(struct shard *shard, const struct command *command)
{
    return command->kind == COMMAND_PUSH &&
           (!list_is_empty(&shard->held) ||
            !checkpoint_takes(shard->checkpoint, bytes_of(command)));
}

void shard_submit(struct shard *shard, const struct command *command,
                  struct queue_reply_to reply_to)
{
    enum queue_status refused = refusal(shard, command);
    shard->submitted++;
    if (refused != QUEUE_OK)
        completion_status_soon(shard, refused, reply_to);
    else if (shard->stopping)
        completion_status_soon(shard, QUEUE_STOPPING, reply_to);
    else if (large_push_is(shard, command))
        large_push_start(shard, command, reply_to);
    else if (is_held(shard, command))
        park(shard, &shard->held, copy_command(command), reply_to, NULL);
    else if (!list_is_empty(&shard->parked))
        park(shard, &shard->parked, copy_command(command), reply_to, NULL);
    else if (!lookup_wants(shard, command, reply_to, NULL) &&
             command_run(shard, command, reply_to) == -EAGAIN)
        park(shard, &shard->parked, copy_command(command), reply_to, NULL);
}

void shard_resume(struct shard *shard, struct command *command, struct queue_reply_to reply_to,
                  struct absent *absent)
{
    if (!lookup_wants(shard, command, reply_to, absent) &&
        command_run(shard, command, reply_to) == -EAGAIN) {
        park(shard, &shard->parked, command, reply_to, absent);
        return;
    }
    free(command);
    free(absent);
}

/* False: it has to wait for room. */
static bool unpark_one(struct shard *shard, struct parked *first)
{
    enum queue_status refused = refusal(shard, first->command);
    if (refused != QUEUE_OK)
        completion_status_soon(shard, refused, first->reply_to);
    else if (!lookup_wants(shard, first->command, first->reply_to, first->absent) &&
             command_run(shard, first->command, first->reply_to) == -EAGAIN)
        return false;
    list_remove(&first->list);
    free(first->command);
    free(first->absent);
    free(first);
    return true;
}

static void unpark(struct shard *shard)
{
    while (!list_is_empty(&shard->parked))
        if (!unpark_one(shard, list_entry(shard->parked.next, struct parked, list)))
            return;
    while (!list_is_empty(&shard->held)) {
        struct parked *first = list_entry(shard->held.next, struct parked, list);
        bool takes = shard->broken || shard->astray ||
                     checkpoint_takes(shard->checkpoint, bytes_of(first->command));
        if (!takes || !unpark_one(shard, first))
            return;
    }
}

/* ---- the turn ---- */

/* Returns whether more is due now than one turn may do. */
static bool advance(struct shard *shard, struct engine_now now)
{
    bool stepped = now.skew_ms != shard->engine_skew_ms;
    if (shard->broken || (engine_next_ms(shard->engine) > now.inner_ms && !stepped))
        return false;
    if (wal_has_room(shard->wal, (size_t)ADVANCE_AT_ONCE * ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER))
        return false; /* the commit under way makes room; on a full disk upkeep's next try does */
    shard->engine_skew_ms = now.skew_ms;
    engine_advance(shard->engine, now, ADVANCE_AT_ONCE);
    return engine_next_ms(shard->engine) <= now.inner_ms;
}

static bool is_quiet(const struct shard *shard)
{
    return !shard->lookups && !checkpoint_is_busy(shard->checkpoint) &&
           !preload_is_busy(shard->preload) && list_is_empty(&shard->waiting) &&
           list_is_empty(&shard->soon) && list_is_empty(&shard->parked) &&
           list_is_empty(&shard->held) && list_is_empty(&shard->scans) && news_is_empty(shard) &&
           !shard->readings && !shard->committing && !shard->keeping_up && !shard->stepped &&
           !shard->telling_step && !topics_is_busy(shard) &&
           (shard->broken || wal_open_is_empty(shard->wal));
}

static void tell_accepting(struct shard *shard, bool accepting, bool is_full)
{
    const char *error = wal_error(shard->wal);
    if (accepting == atomic_load_explicit(&shard->accepting, memory_order_relaxed))
        return;
    atomic_store_explicit(&shard->accepting, accepting, memory_order_relaxed);
    if (accepting)
        log_event(LOG_INFO, "pushes are accepted again", LOG_NUMBER("shard", shard->options.index));
    else
        log_event(LOG_ERROR,
                  is_full ? "disk is full: pushes are refused"
                          : "no log file can be made: pushes are refused",
                  LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("error", error ? error : strerror(is_full ? ENOSPC : EIO)));
}

static void publish_figures(struct shard *shard)
{
    struct wal_stats stats;
    struct depot_stats stored;
    wal_stats(shard->wal, &stats);
    depot_stats(shard->depot, &stored);
    atomic_store_explicit(&shard->bytes_on_disk, stats.bytes_on_disk + stored.bytes_on_disk,
                          memory_order_relaxed);
    struct checkpoint_figures checkpoints;
    checkpoint_figures(shard->checkpoint, &checkpoints);
    atomic_store_explicit(&shard->cold_jobs, stored.slots_alive, memory_order_relaxed);
    atomic_store_explicit(&shard->runs, stored.runs, memory_order_relaxed);
    atomic_store_explicit(&shard->checkpoints, checkpoints.checkpoints, memory_order_relaxed);
    atomic_store_explicit(&shard->checkpoints_failed, checkpoints.failed, memory_order_relaxed);
    bool is_full = stats.full || checkpoint_is_without_space(shard->checkpoint);
    tell_accepting(shard, !stats.stuck && !is_full, is_full);
}

/* Totals that no other record tells, such as how many jobs were nacked, are exact after a clean
 * stop: the topics' records are the last ones written. */
static void keep_totals(struct shard *shard)
{
    shard->totals_kept = true;
    if (shard->broken)
        return;
    topics_begin(shard);
    reactor_turn_again(shard->reactor);
}

static void stop_if_quiet(struct shard *shard)
{
    if (shard->stopping && !shard->totals_kept && is_quiet(shard))
        keep_totals(shard);
    if (shard->stopping && shard->stopped && is_quiet(shard)) {
        void (*stopped)(void *ctx) = shard->stopped;
        shard->stopped = NULL;
        stopped(shard->stopped_ctx);
    }
}

bool shard_turn(void *ctx)
{
    struct shard *shard = ctx;
    struct engine_now now = shard_now(shard);
    look_for_path(shard, now.inner_ms);
    bool busy = advance(shard, now);
    bool more = scans_step(shard);
    if (!shard->broken)
        more |= topics_step(shard);
    more |= preload_step(shard->preload, now);
    more |= checkpoint_step(shard->checkpoint, now);
    unpark(shard);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool told = news_run(shard);
        if (!completions_run(shard) && !told)
            break;
    }
    bool holds = hold_commit(shard);
    if (!holds)
        commit_start(shard);
    upkeep_start(shard, now.inner_ms);
    tell_step(shard);
    publish_figures(shard);
    stop_if_quiet(shard);

    int64_t next_ms = shard->broken ? INT64_MAX : engine_next_ms(shard->engine);
    int64_t sync_ms = shard->broken || shard->committing ? INT64_MAX : wal_sync_due_ms(shard->wal);
    if (next_ms <= now.inner_ms && !busy) /* waits for room: a commit's end or the retry wakes us */
        next_ms = shard->committing ? INT64_MAX : now.inner_ms + UPKEEP_RETRY_MS;
    int64_t held_ms = list_is_empty(&shard->held) ? INT64_MAX : now.inner_ms + 1;
    int64_t astray_ms = shard->astray && !shard->broken ? shard->astray_look_ms : INT64_MAX;
    int64_t others_ms[] = {held_ms, sync_ms, astray_ms,
                           shard->broken ? INT64_MAX : preload_next_ms(shard->preload),
                           shard->broken ? INT64_MAX : checkpoint_next_ms(shard->checkpoint)};
    for (size_t i = 0; i < sizeof others_ms / sizeof others_ms[0]; i++)
        if (others_ms[i] < next_ms)
            next_ms = others_ms[i];
    if (!shard->keeping_up && shard->upkeep_retry_ms > now.inner_ms &&
        shard->upkeep_retry_ms < next_ms)
        next_ms = shard->upkeep_retry_ms;
    deadline_set(shard->deadline, next_ms);
    return busy || holds || !list_is_empty(&shard->soon) || !news_is_empty(shard) ||
           (more && !shard->committing);
}

/* ---- stop, and what others see ---- */

void shard_stop(struct shard *shard, void (*stopped)(void *ctx), void *ctx)
{
    shard->stopping = true;
    shard->stopped = stopped;
    shard->stopped_ctx = ctx;
}

void shard_figures(struct shard *shard, struct shard_figures *out)
{
    bool leads = wal_leads(shard->wal) && depot_leads(shard->depot);
    if (!leads)
        atomic_store_explicit(&shard->astray_seen, true, memory_order_relaxed);
    *out = (struct shard_figures){
        .bytes_on_disk = atomic_load_explicit(&shard->bytes_on_disk, memory_order_relaxed),
        .cold_jobs = atomic_load_explicit(&shard->cold_jobs, memory_order_relaxed),
        .runs = atomic_load_explicit(&shard->runs, memory_order_relaxed),
        .checkpoints = atomic_load_explicit(&shard->checkpoints, memory_order_relaxed),
        .checkpoints_failed =
            atomic_load_explicit(&shard->checkpoints_failed, memory_order_relaxed),
        .astray = !leads || atomic_load_explicit(&shard->astray, memory_order_relaxed),
        .healthy = atomic_load_explicit(&shard->healthy, memory_order_relaxed),
        .accepting = atomic_load_explicit(&shard->accepting, memory_order_relaxed)};
}
