/*
 * What is done next, where nothing is under way: filters that are still to be read; in turns, a
 * checkpoint and a merge of tables of keys; the reserve.
 */
#include "local/checkpoint_private.h"

enum {
    FILES_MIN = 2, /* of the log, that could go */
    FILES_MAX = 2,
    KEYS_EVERY_MS = 1000,
    SPACE_EVERY_MS = 1000 /* also where runs written anew would not become smaller */
};

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
    checkpoint_give(checkpoint, CHECKPOINT_FILTERS);
    return true;
}

void checkpoint_filters_read(struct checkpoint *checkpoint)
{
    depot_let_go(checkpoint->filters);
    checkpoint->filters = NULL;
    checkpoint->filters_failed = checkpoint->result < 0;
    if (checkpoint->result < 0)
        checkpoint_complain(checkpoint, checkpoint->result, "reading a filter", NULL);
    checkpoint->phase = CHECKPOINT_IDLE;
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
    checkpoint_give(checkpoint, CHECKPOINT_MERGING);
    return true;
}

bool checkpoint_merged(struct checkpoint *checkpoint)
{
    struct depot *depot = checkpoint->shard->depot;
    int failed = checkpoint->result;
    if (failed > 0) { /* to be gone on with */
        checkpoint_become_idle(checkpoint);
        return true;
    }
    if (!failed && !depot_keys_install(depot, &checkpoint->merge))
        failed = -ENOMEM;
    if (failed) {
        checkpoint_complain(checkpoint, failed, "merging tables of keys", NULL);
        checkpoint_abandon_merge(checkpoint);
        checkpoint->phase = CHECKPOINT_IDLE;
        return false;
    }
    checkpoint->is_merging = false;
    checkpoint->figures.keys_merges++;
    checkpoint->phase = CHECKPOINT_SNAPSHOT;
    return true;
}

void checkpoint_abandon_merge(struct checkpoint *checkpoint)
{
    if (checkpoint->is_merging)
        depot_keys_abandon(checkpoint->shard->depot, &checkpoint->merge);
    checkpoint->is_merging = false;
}

bool checkpoint_step_idle(struct checkpoint *checkpoint, struct engine_now now)
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
        checkpoint_abandon_merge(checkpoint); /* it keeps files that could go */
    checkpoint->is_keys_turn = false;
    if (is_keys_turn && merge_keys(checkpoint, now))
        return false;
    if (before || for_space) {
        checkpoint_begin(checkpoint, before, now);
        return checkpoint->phase == CHECKPOINT_COLLECTING;
    }
    checkpoint->before_file = 0;
    checkpoint->began_ms = now.inner_ms;
    if (checkpoint->is_without_space || depot_wants_tidying(shard->depot)) {
        checkpoint_give(checkpoint, CHECKPOINT_TIDYING); /* is there room for the reserve? */
    } else if (checkpoint->is_merging || now.inner_ms >= checkpoint->keys_ms) {
        merge_keys(checkpoint, now);
    }
    return false;
}
