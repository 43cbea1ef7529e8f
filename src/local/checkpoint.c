/* The states of a checkpoint: which step is next, giving up, and a stop. The steps themselves are
 * in the other files of checkpoint_private.h. */
#include "local/checkpoint.h"

#include "base/clock.h"
#include "base/log.h"
#include "local/checkpoint_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_MS_MAX = 5000 };

/* ---- life ---- */

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
    checkpoint_forget_changed(checkpoint);
    checkpoint_abandon_merge(checkpoint);
    depot_build_fini(&checkpoint->build);
    catalog_fini(&checkpoint->catalog);
    wal_window_fini(&checkpoint->window);
    if (checkpoint->filters)
        depot_let_go(checkpoint->filters);
    free(checkpoint);
}

/* ---- giving up, and ending ---- */

void checkpoint_complain(struct checkpoint *checkpoint, int failed, const char *during,
                         const char *error)
{
    log_event(LOG_ERROR, "checkpoint failed", LOG_NUMBER("shard", checkpoint->shard->options.index),
              LOG_TEXT("during", during),
              LOG_TEXT("error", error && *error ? error : strerror(-failed)));
    checkpoint->figures.failed++;
    checkpoint->is_without_space |= failed == -ENOSPC || failed == -EDQUOT;
    int64_t wait_ms = (int64_t)CHECKPOINT_RETRY_MS
                      << (checkpoint->failures < 5 ? checkpoint->failures++ : 5);
    checkpoint->retry_ms =
        clock_inner_ms() + (wait_ms < RETRY_MS_MAX ? wait_ms : (int64_t)RETRY_MS_MAX);
}

void checkpoint_become_idle(struct checkpoint *checkpoint)
{
    checkpoint_forget_changed(checkpoint);
    depot_build_fini(&checkpoint->build);
    catalog_fini(&checkpoint->catalog);
    wal_window_fini(&checkpoint->window);
    checkpoint->phase = CHECKPOINT_IDLE;
    checkpoint->keys_ms = 0;
}

/* Before anything has happened. */
void checkpoint_give_up(struct checkpoint *checkpoint, int failed, const char *during)
{
    checkpoint_complain(checkpoint, failed, during, checkpoint->build.error);
    depot_abandon(checkpoint->shard->depot, &checkpoint->build);
    checkpoint_become_idle(checkpoint);
}

static bool is_over(const struct checkpoint *checkpoint)
{
    return checkpoint->shard->stopping || checkpoint->shard->broken;
}

/* What has been installed stays installed until the depot is closed. */
static void leave_unfinished(struct checkpoint *checkpoint)
{
    checkpoint->phase = checkpoint->build.depot ? CHECKPOINT_STOPPED : CHECKPOINT_IDLE;
}

/* A stop does not wait for more than what the archivist has in hand: nothing counts before the
 * commit, and the log has it all. */
static void stop(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    switch (checkpoint->phase) {
    case CHECKPOINT_FILTERS:
        checkpoint_filters_read(checkpoint);
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
    checkpoint_become_idle(checkpoint);
}

/* ---- stepping ---- */

bool checkpoint_step(struct checkpoint *checkpoint, struct engine_now now)
{
    if (is_over(checkpoint))
        atomic_store(&checkpoint->is_cancelled, true);
    checkpoint_set_pace(checkpoint);
    if (checkpoint->is_with_archivist)
        return false;
    if (is_over(checkpoint)) {
        checkpoint_abandon_merge(checkpoint);
        if (checkpoint->phase != CHECKPOINT_IDLE && checkpoint->phase != CHECKPOINT_STOPPED)
            stop(checkpoint);
        return false;
    }
    switch (checkpoint->phase) {
    case CHECKPOINT_IDLE:
        return checkpoint_step_idle(checkpoint, now);
    case CHECKPOINT_FILTERS:
        checkpoint_filters_read(checkpoint);
        return true;
    case CHECKPOINT_COLLECTING:
        return checkpoint_step_collecting(checkpoint, now);
    case CHECKPOINT_BUILDING:
        return checkpoint_built(checkpoint);
    case CHECKPOINT_INSTALLING:
        return checkpoint_step_installing(checkpoint);
    case CHECKPOINT_EVICTING:
        return checkpoint_step_evicting(checkpoint, now);
    case CHECKPOINT_TOPICS:
        return checkpoint_step_topics(checkpoint);
    case CHECKPOINT_SNAPSHOT:
        return checkpoint_step_snapshot(checkpoint, now);
    case CHECKPOINT_SYNCING:
        return checkpoint_step_syncing(checkpoint);
    case CHECKPOINT_MERGING:
        return checkpoint_merged(checkpoint);
    case CHECKPOINT_COMMITTING:
        return checkpoint_committed(checkpoint);
    case CHECKPOINT_TIDYING:
        checkpoint_tidied(checkpoint, now);
        return true;
    case CHECKPOINT_STOPPED:
        break;
    }
    return false;
}

/* ---- how it stands ---- */

bool checkpoint_is_busy(const struct checkpoint *checkpoint)
{
    return checkpoint->is_with_archivist || checkpoint->is_merging ||
           (checkpoint->phase != CHECKPOINT_IDLE && checkpoint->phase != CHECKPOINT_STOPPED);
}

int64_t checkpoint_next_ms(const struct checkpoint *checkpoint)
{
    bool waits = checkpoint->phase == CHECKPOINT_IDLE || checkpoint->phase == CHECKPOINT_SNAPSHOT;
    return waits && checkpoint->retry_ms > clock_inner_ms() ? checkpoint->retry_ms : INT64_MAX;
}

bool checkpoint_is_without_space(const struct checkpoint *checkpoint)
{
    return checkpoint->is_without_space;
}

void checkpoint_figures(const struct checkpoint *checkpoint, struct checkpoint_figures *out)
{
    *out = checkpoint->figures;
}
