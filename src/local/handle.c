#include "local/handle.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "local/lease.h"

#include <stdlib.h>

static uint32_t shard_of_job(void *ctx, struct slice topic, struct slice id)
{
    const struct local *local = ((struct handle *)ctx)->local;
    /* The high half: the low one finds the bucket within the shard. */
    struct hash128 key = hash_pair(topic, id, local->manifest.hash_seed);
    return (uint32_t)(((key.high >> 32) * local->shard_count) >> 32);
}

static bool shard_of_lease(void *ctx, struct slice text, uint32_t *shard)
{
    return lease_find_shard(text, shard) && *shard < ((struct handle *)ctx)->local->shard_count;
}

static void on_refuse(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    route_refuse(ctx, status, reply_to);
}

static struct sharded *make_sharded(struct handle *handle)
{
    struct queue *parts[DATADIR_SHARDS_MAX];
    uint32_t count = handle->local->shard_count;
    for (uint32_t i = 0; i < count; i++)
        parts[i] = &handle->parts[i].queue;
    return sharded_new(&(struct sharded_options){.parts = parts,
                                                 .part_count = count,
                                                 .home = handle->index,
                                                 .leads = true,
                                                 .part_of_job = shard_of_job,
                                                 .part_of_lease = shard_of_lease,
                                                 .refuse = on_refuse,
                                                 .ctx = handle});
}

struct handle *handle_new(struct local *local, uint32_t index, struct reactor *reactor)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    handle->local = local;
    handle->reactor = reactor;
    handle->index = index;
    for (uint32_t i = 0; i < local->shard_count; i++)
        handle->parts[i] = (struct part){.queue.ops = &part_ops, .handle = handle, .shard = i};
    handle->queue = &handle->parts[0].queue;
    if (local->shard_count > 1) {
        handle->sharded = make_sharded(handle);
        handle->queue = handle->sharded ? sharded_queue(handle->sharded) : NULL;
    }
    if (handle->queue)
        handle->queue->door =
            queue_door_new(local->options.body_bytes_max, random_u64(), clock_wall_ms);
    if (!handle->queue || !handle->queue->door) {
        handle_free(handle);
        return NULL;
    }
    return handle;
}

void handle_free(struct handle *handle)
{
    if (!handle)
        return;
    if (handle->queue)
        queue_door_free(handle->queue->door);
    sharded_free(handle->sharded);
    free(handle);
}
