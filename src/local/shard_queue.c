/* A shard, here or on another reactor, as a queue of its own. */
#include "local/handle.h"

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct part *part = (struct part *)(void *)queue;
    route_watch(part->handle, part->shard, topic, on);
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    const struct part *part = (struct part *)(void *)queue;
    const struct local *local = part->handle->local;
    struct shard_figures figures;
    shard_figures(local->shards[part->shard], &figures);
    *out = (struct queue_info){.store = "embedded",
                               .shards = 1,
                               .body_bytes_max = local->options.body_bytes_max,
                               .bytes_on_disk = figures.bytes_on_disk,
                               .cold_jobs = figures.cold_jobs,
                               .runs = figures.runs,
                               .checkpoints = figures.checkpoints,
                               .checkpoints_failed = figures.checkpoints_failed,
                               .healthy = figures.healthy,
                               .accepting = figures.accepting && !figures.astray,
                               .moved = figures.astray};
    switch (local->options.sync) {
    case WAL_SYNC_ALWAYS:
        out->sync = out->durability_class = "always";
        out->durability = "an answered change survives a crash of the server and a power cut";
        break;
    case WAL_SYNC_INTERVAL:
        out->sync = local->sync_interval;
        out->durability_class = "interval";
        out->durability = "an answered change survives a crash of the server; a power cut may take "
                          "what the last sync interval brought";
        break;
    case WAL_SYNC_NEVER:
        out->sync = out->durability_class = "never";
        out->durability = "an answered change survives a crash of the server; what a power cut "
                          "takes is up to the operating system";
        break;
    }
}

const struct queue_ops part_ops = {.submit = route_submit, .watch = on_watch, .info = on_info};
