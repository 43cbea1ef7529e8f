/* One queue over the shards: opens, assembles, and turns them. */
#include "redis/redis.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "queue/door.h"
#include "queue/sharded.h"
#include "redis/lease.h"
#include "redis/script.h"
#include "redis/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_MS = 10000, LOOK_MS = 1000, HASH_SEED = 0 /* all servers must agree */ };

struct redis {
    struct redis_options options;
    struct redis_url url;
    struct redis_inspection inspection; /* kept true: of each shard's master, as last heard */
    struct redis_master masters[REDIS_SHARDS_MAX];
    bool is_known[REDIS_SHARDS_MAX];
    char server[9], name[REDIS_NAME_BYTES];
    struct reactor *reactor;
    struct redis_topology *topology;
    struct redis_shard *shards[REDIS_SHARDS_MAX];
    struct queue *parts[REDIS_SHARDS_MAX]; /* the same, as queues */
    uint32_t shard_count;
    struct sharded *sharded; /* NULL: there is one shard */
    struct queue *queue;     /* of them all */
    struct deadline *deadline;
    int64_t look_ms; /* the next regular look */
    struct redis_figures figures;
    bool stopping;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* ---- open ---- */

int redis_open(const struct redis_options *options, struct redis **out, char *error,
               size_t error_bytes)
{
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis || !redis_scripts_init()) {
        free(redis);
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    redis->options = *options;
    redis->options.url = NULL; /* it need not live longer than this call */
    if (!redis->options.patience_ms)
        redis->options.patience_ms = PATIENCE_MS;
    int failed = -EINVAL;
    if (redis_url_parse(options->url, &redis->url, error, error_bytes))
        failed = redis_inspect(&redis->url, options, &redis->inspection, error, error_bytes);
    if (failed) {
        free(redis);
        return failed;
    }
    snprintf(redis->server, sizeof redis->server, "%08" PRIx32, (uint32_t)random_u64());
    redis->shard_count = redis->inspection.shards;
    redis->figures.shards = redis->shard_count;
    memcpy(redis->name, redis->inspection.name, sizeof redis->name);
    *out = redis;
    return 0;
}

const char *redis_store_name(const struct redis *redis)
{
    return redis->name;
}

/* ---- where a job is ---- */

/* The high half, as in the embedded store. */
static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    const struct redis *redis = ctx;
    struct hash128 key = hash_pair(topic, id, HASH_SEED);
    return (uint32_t)(((key.high >> 32) * redis->shard_count) >> 32);
}

static bool part_of_lease(void *ctx, struct slice lease, uint32_t *part)
{
    const struct redis *redis = ctx;
    return redis_lease_find_shard(lease, part) && *part < redis->shard_count;
}

static void refuse_call(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    struct redis *redis = ctx;
    redis_shard_refuse(redis->shards[0], status, reply_to);
}

/* ---- the turn ---- */

static void stop_if_done(struct redis *redis)
{
    if (!redis->stopping || !redis->stopped)
        return;
    for (uint32_t i = 0; i < redis->shard_count; i++)
        if (!redis_shard_is_done(redis->shards[i]))
            return;
    void (*stopped)(void *ctx) = redis->stopped;
    redis->stopped = NULL;
    stopped(redis->stopped_ctx);
}

/* Time that passes while the shards have their turns is noticed by the next one. */
static bool redis_turn(void *ctx)
{
    struct redis *redis = ctx;
    int64_t now_us = clock_inner_us();
    bool looks = now_us >= redis->look_ms * 1000;
    if (looks)
        redis->look_ms = now_us / 1000 + LOOK_MS;
    int64_t next_us = redis->look_ms * 1000;
    for (uint32_t i = 0; i < redis->shard_count; i++) {
        int64_t at_us = redis_shard_turn(redis->shards[i], now_us, looks);
        if (at_us < next_us)
            next_us = at_us;
    }
    stop_if_done(redis);
    if (next_us <= now_us)
        return true;
    deadline_set_us(redis->deadline, next_us);
    return false;
}

/* The turn that follows is all that is wanted. */
static void on_deadline(void *ctx)
{
    (void)ctx;
}

/* ---- what is in force ---- */

static void say_change(const struct redis_inspection *before, const struct redis_inspection *now)
{
    if (now->evicts && !before->evicts)
        log_event(LOG_ERROR, "redis may throw jobs away",
                  LOG_TEXT("why", "maxmemory-policy is not noeviction"),
                  LOG_TEXT("policy", now->policy),
                  LOG_TEXT("advice", "CONFIG SET maxmemory-policy noeviction"));
    if (now->durability != before->durability)
        log_event(now->durability < before->durability ? LOG_WARN : LOG_INFO,
                  "redis' durability is another",
                  LOG_TEXT("was", redis_durability_name(before->durability)),
                  LOG_TEXT("is", redis_durability_name(now->durability)));
}

/* A master was greeted, or looked at: others may have been promoted, or set otherwise. */
static void on_learned(void *ctx, uint32_t shard, const struct redis_master *master)
{
    struct redis *redis = ctx;
    struct redis_inspection sum = {0}, before = redis->inspection;
    redis->masters[shard] = *master;
    redis->is_known[shard] = true;
    for (uint32_t i = 0; i < redis->shard_count; i++)
        if (redis->is_known[i])
            redis_inspection_add(&sum, &redis->masters[i]);
    redis_inspection_say(&sum, redis->options.wait_replicas);
    sum.shards = before.shards;
    memcpy(sum.name, before.name, sizeof sum.name);
    memcpy(sum.version, before.version, sizeof sum.version);
    redis->inspection = sum;
    say_change(&before, &sum);
}

/* ---- attach ---- */

static bool shards_new(struct redis *redis)
{
    for (uint32_t i = 0; i < redis->shard_count; i++) {
        struct redis_shard_options options = {.reactor = redis->reactor,
                                              .topology = redis->topology,
                                              .url = &redis->url,
                                              .server = redis->server,
                                              .name = redis->name,
                                              .inspection = &redis->inspection,
                                              .index = i,
                                              .shards = redis->shard_count,
                                              .topics_max = redis->options.topics_max,
                                              .wait_replicas = redis->options.wait_replicas,
                                              .body_bytes_max = redis->options.body_bytes_max,
                                              .patience_ms = redis->options.patience_ms,
                                              .require_durability =
                                                  redis->options.require_durability,
                                              /* But for a cluster all are on one master. */
                                              .asks = i == 0 || redis->url.kind == REDIS_CLUSTER,
                                              .learned = on_learned,
                                              .learned_ctx = redis,
                                              .figures = &redis->figures};
        if (!(redis->shards[i] = redis_shard_new(&options, &redis->parts[i])))
            return false;
    }
    return true;
}

static struct sharded *make_sharded(struct redis *redis)
{
    return sharded_new(&(struct sharded_options){
        .parts = redis->parts,
        .part_count = redis->shard_count,
        /* Where takes begin: servers that start alike should not all ask the same one first. */
        .home = (uint32_t)(random_u64() % redis->shard_count),
        .part_of_job = part_of_job,
        .part_of_lease = part_of_lease,
        .refuse = refuse_call,
        .ctx = redis});
}

/* One shard is the queue; several are made one. */
static bool queue_new(struct redis *redis)
{
    struct queue *queue = redis->parts[0];
    if (redis->shard_count > 1) {
        if (!(redis->sharded = make_sharded(redis)))
            return false;
        queue = sharded_queue(redis->sharded);
    }
    queue->door = queue_door_new(redis->options.body_bytes_max, random_u64(), clock_wall_ms);
    redis->queue = queue;
    return queue->door != NULL;
}

int redis_attach(struct redis *redis, struct reactor *reactor, struct queue **out, char *error,
                 size_t error_bytes)
{
    redis->reactor = reactor;
    redis->topology = redis_topology_new(reactor, &redis->url);
    redis->deadline = deadline_new(reactor, on_deadline, redis);
    if (!redis->topology || !redis->deadline || !shards_new(redis) || !queue_new(redis)) {
        snprintf(error, error_bytes,
                 "cannot begin with Redis: out of memory or of file descriptors");
        return -ENOMEM; /* redis_free gives back what there is */
    }
    reactor_at_turn_end(reactor, redis_turn, redis);
    *out = redis->queue;
    return 0;
}

/* ---- stop ---- */

void redis_stop(struct redis *redis, void (*stopped)(void *ctx), void *ctx)
{
    redis->stopping = true;
    redis->stopped = stopped;
    redis->stopped_ctx = ctx;
    for (uint32_t i = 0; i < redis->shard_count; i++)
        redis_shard_stop(redis->shards[i]);
    reactor_turn_again(redis->reactor);
}

void redis_free(struct redis *redis)
{
    if (!redis)
        return;
    if (redis->reactor)
        reactor_remove_at_turn_end(redis->reactor, redis_turn, redis);
    if (redis->queue)
        queue_door_free(redis->queue->door);
    sharded_free(redis->sharded);
    for (uint32_t i = 0; i < redis->shard_count; i++)
        redis_shard_free(redis->shards[i]);
    if (redis->topology)
        redis_topology_free(redis->topology);
    if (redis->deadline)
        deadline_free(redis->deadline);
    explicit_bzero(&redis->url, sizeof redis->url);
    free(redis);
}

/* ---- how it stands ---- */

void redis_figures(const struct redis *redis, struct redis_figures *out)
{
    *out = redis->figures;
}

bool redis_is_quiet(const struct redis *redis)
{
    int64_t now_us = clock_inner_us();
    for (uint32_t i = 0; i < redis->shard_count; i++)
        if (!redis_shard_is_quiet(redis->shards[i], now_us))
            return false;
    return now_us < redis->look_ms * 1000;
}
