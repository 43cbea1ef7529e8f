/*
 * Committing: one moment of the shard becomes the new catalog, once the log is synced up to it.
 * Until the catalog is written all of this counts for nothing, and the log's files stay.
 */
#include "local/checkpoint_private.h"
#include "local/preload.h"

#include <errno.h>
#include <stdlib.h>

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

bool checkpoint_step_topics(struct checkpoint *checkpoint)
{
    if (topics_is_busy(checkpoint->shard)) {
        find_room(checkpoint);
        return false;
    }
    checkpoint->phase = CHECKPOINT_SNAPSHOT;
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

bool checkpoint_step_snapshot(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    const struct catalog *old = depot_catalog(shard->depot);
    uint32_t count, first = old->log_first;
    uint64_t sequence = old->log_first_sequence;
    if (now.inner_ms < checkpoint->retry_ms || shard->astray)
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
        checkpoint_complain(checkpoint, failed, "snapshot", NULL);
        return false;
    }
    checkpoint->needs = wal_open_sequence(shard->wal) - wal_open_is_empty(shard->wal);
    checkpoint->phase = CHECKPOINT_SYNCING;
    return true;
}

bool checkpoint_step_syncing(struct checkpoint *checkpoint)
{
    struct shard *shard = checkpoint->shard;
    if (wal_synced(shard->wal) < checkpoint->needs) {
        shard_sync(shard);
        return false;
    }
    checkpoint_give(checkpoint, CHECKPOINT_COMMITTING);
    return false;
}

bool checkpoint_committed(struct checkpoint *checkpoint)
{
    struct shard *shard = checkpoint->shard;
    if (checkpoint->result < 0) {
        checkpoint_complain(checkpoint, checkpoint->result, "writing the catalog", NULL);
        if (checkpoint->result == -ESTALE)
            shard_go_astray(shard);
        if (checkpoint->is_fatal)
            shard_fail(shard, "writing the catalog", checkpoint->result);
        catalog_fini(&checkpoint->catalog);
        checkpoint->phase = CHECKPOINT_SNAPSHOT; /* what is true by then */
        return false;
    }
    depot_committed(shard->depot, &checkpoint->catalog);
    if (checkpoint->before_file)
        wal_checkpointed(shard->wal, checkpoint->before_file);
    preload_view_changed(shard->preload);
    checkpoint_give(checkpoint, CHECKPOINT_TIDYING);
    return false;
}

void checkpoint_tidied(struct checkpoint *checkpoint, struct engine_now now)
{
    checkpoint->failures = 0;
    checkpoint->filters_failed = false; /* tried again */
    if (checkpoint->result == 0)
        checkpoint->is_without_space = false;
    else if (checkpoint->is_without_space)
        checkpoint->retry_ms = now.inner_ms + CHECKPOINT_RETRY_MS;
    if (checkpoint->build.depot) {
        checkpoint->figures.checkpoints++;
        checkpoint->figures.amid_merges += checkpoint->is_merging;
    }
    checkpoint->is_keys_turn = checkpoint->build.depot;
    checkpoint->figures.last_ms = now.inner_ms - checkpoint->began_ms;
    checkpoint_become_idle(checkpoint);
}
