/* One queue over all shards: opens the store, assembles the queue, and runs the steps of the
 * shards. */
#include "redis/redis_core.h"
#include "redis/tls.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "feed/feed.h"
#include "queue/door.h"
#include "redis/id.h"
#include "redis/script.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 10000, LOOK_MS = 1000, HASH_SEED = 0 /* must be the same on all servers */ };

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
    redis->options.url = NULL; /* need not outlive this call */
    redis_test_clock_init(redis);
    if (!redis->options.timeout_ms)
        redis->options.timeout_ms = TIMEOUT_MS;
    int failed = -EINVAL;
    if (redis_url_parse(options->url, &redis->url, error, error_bytes) &&
        redis_tls_open(&redis->url, error, error_bytes))
        failed = redis_inspect(&redis->url, options, &redis->inspection, error, error_bytes);
    if (failed) {
        redis_tls_close(&redis->url);
        free(redis);
        return failed;
    }
    snprintf(redis->server, sizeof redis->server, "%08" PRIx32, (uint32_t)random_u64());
    memcpy(redis->name, redis->inspection.name, sizeof redis->name);
    *out = redis;
    return 0;
}

const char *redis_store_name(const struct redis *redis)
{
    return redis->name;
}

/* ---- the shard of a job ---- */

/* Uses the high half of the hash, like the embedded store. All servers must find the same shard without a call, so the name of a topic decides
 * whether all its jobs are in one. */
static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    const struct redis_set *set = ctx;
    if (flow_name_is_one_shard(topic))
        id = (struct slice){.at = ""};
    struct hash128 key = hash_pair(topic, id, HASH_SEED);
    return (uint32_t)(((key.high >> 32) * set->generation.shards) >> 32);
}

static uint32_t number_in(void *ctx, uint32_t part, struct slice topic, struct slice id)
{
    const struct redis_set *set = ctx;
    (void)topic;
    (void)id;
    return redis_generation_number_of(&set->generation, part);
}

static bool part_of_lease(void *ctx, struct slice lease, uint32_t *part)
{
    const struct redis_set *set = ctx;
    uint32_t number, first = redis_generation_number_of(&set->generation, 0);
    if (!redis_lease_find_shard(lease, &number) || number < first)
        return false;
    *part = number - first;
    return *part < set->generation.shards;
}

static void refuse_in(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    struct redis_set *set = ctx;
    redis_shard_refuse(set->shards[0], status, reply_to);
}

/* ---- the generation of a job, if there are two: `from` is part 0 ---- */

static struct redis_set *set_of_part(const struct redis *redis, uint32_t part)
{
    return part == 0 && redis->from ? redis->from : redis->into;
}

static uint32_t number_in_either(void *ctx, uint32_t part, struct slice topic, struct slice id)
{
    struct redis_set *set = set_of_part(ctx, part);
    return redis_generation_number_of(&set->generation, part_of_job(set, topic, id));
}

static bool is_sealed(void *ctx)
{
    const struct redis *redis = ctx;
    const struct redis_set *from = redis->from;
    for (uint32_t i = 0; from && i < from->generation.shards; i++)
        if (from->states[i] < REDIS_MOVE_SEALED)
            return false;
    return true;
}

static bool set_of_lease(void *ctx, struct slice lease, uint32_t *part)
{
    const struct redis *redis = ctx;
    uint32_t shard;
    *part = redis->from && part_of_lease(redis->from, lease, &shard) ? 0 : 1;
    return *part == 0 || part_of_lease(redis->into, lease, &shard);
}

static void refuse_call(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    const struct redis *redis = ctx;
    refuse_in(redis->into, status, reply_to);
}

/* ---- the step ---- */

static bool set_is_done(const struct redis_set *set)
{
    for (uint32_t i = 0; set && i < set->generation.shards; i++)
        if (!redis_shard_is_done(set->shards[i]))
            return false;
    return true;
}

static void stop_if_done(struct redis *redis)
{
    if (!redis->stopping || !redis->stopped || !set_is_done(redis->from) ||
        !set_is_done(redis->into) || !handover_is_quiet(redis->handover) ||
        !redis_waits_are_done(redis->waits))
        return;
    void (*stopped)(void *ctx) = redis->stopped;
    redis->stopped = NULL;
    stopped(redis->stopped_ctx);
}

static int64_t set_step(struct redis_set *set, int64_t now_us, bool looks)
{
    int64_t next_us = INT64_MAX;
    if (set && set->repeats) {
        set->repeats = false;
        sharded_repeat(set->sharded);
    }
    for (uint32_t i = 0; set && i < set->generation.shards; i++) {
        int64_t at_us = redis_shard_step(set->shards[i], now_us, looks);
        if (at_us < next_us)
            next_us = at_us;
    }
    return next_us;
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static int64_t handover_step_us(struct redis *redis, int64_t now_ms)
{
    int64_t at_ms = handover_step(redis->handover, now_ms);
    return at_ms == INT64_MAX ? INT64_MAX : at_ms * 1000;
}

static void follow_generations(struct redis *redis);

/* Runs a step of all shards. Time that passes during it is noticed by the next step. */
static bool redis_step(void *ctx)
{
    struct redis *redis = ctx;
    int64_t now_us = clock_inner_us();
    bool looks = now_us >= redis->look_ms * 1000;
    if (looks)
        redis->look_ms = now_us / 1000 + LOOK_MS;
    int64_t next_us = earlier(redis->look_ms * 1000, handover_step_us(redis, now_us / 1000));
    next_us = earlier(next_us, set_step(redis->from, now_us, looks));
    next_us = earlier(next_us, set_step(redis->into, now_us, looks));
    next_us = earlier(next_us, set_step(redis->ready, now_us, looks));
    int64_t waits_ms = redis_waits_step(redis->waits, now_us / 1000);
    next_us = earlier(next_us, waits_ms == INT64_MAX ? INT64_MAX : waits_ms * 1000);
    follow_generations(redis);
    if (redis->after_iteration)
        redis->after_iteration(redis->after_iteration_ctx, now_us / 1000);
    if (redis->test_clock.settled)
        redis_test_clock_step(redis, redis_is_quiet(redis));
    stop_if_done(redis);
    if (next_us <= now_us)
        return true;
    deadline_set_us(redis->deadline, next_us);
    return false;
}

/* Does nothing: the step that follows is the purpose. */
static void on_deadline(void *ctx)
{
    (void)ctx;
}

/* ---- effective settings ---- */

static void log_change(const struct redis_inspection *before, const struct redis_inspection *now)
{
    if (now->evicts && !before->evicts)
        log_event(LOG_ERROR, "redis may evict jobs",
                  LOG_TEXT("why", "maxmemory-policy is not noeviction"),
                  LOG_TEXT("policy", now->policy),
                  LOG_TEXT("advice", "CONFIG SET maxmemory-policy noeviction"));
    if (now->durability != before->durability)
        log_event(now->durability < before->durability ? LOG_WARN : LOG_INFO,
                  "durability of redis has changed",
                  LOG_TEXT("was", redis_durability_name(before->durability)),
                  LOG_TEXT("is", redis_durability_name(now->durability)));
}

static void add_masters(struct redis_inspection *sum, const struct redis_set *set)
{
    for (uint32_t i = 0; set && i < set->generation.shards; i++)
        if (set->is_known[i])
            redis_inspection_add(sum, &set->masters[i]);
}

/* Combines the settings of all masters after one was greeted or checked: another server may have
 * been promoted, or settings changed. */
static void on_learned(void *ctx, uint32_t shard, const struct redis_master *master)
{
    struct redis_set *set = ctx;
    struct redis *redis = set->redis;
    struct redis_inspection sum = {0}, before = redis->inspection;
    set->masters[shard] = *master;
    set->is_known[shard] = true;
    add_masters(&sum, redis->from);
    add_masters(&sum, redis->into);
    if (!sum.masters)
        return;
    redis_inspection_describe(&sum, redis->options.wait_replicas);
    sum.generation = before.generation;
    sum.stored = before.stored;
    memcpy(sum.name, before.name, sizeof sum.name);
    memcpy(sum.version, before.version, sizeof sum.version);
    redis->inspection = sum;
    log_change(&before, &sum);
}

/* ---- a generation ---- */

static void on_moved(void *ctx, uint32_t shard, enum redis_move_state state,
                     const struct redis_generation *target)
{
    struct redis_set *set = ctx;
    set->states[shard] = state;
    if (shard != 0)
        return;
    set->has_reported = true;
    set->target = state == REDIS_MOVE_NONE ? (struct redis_generation){0} : *target;
}

static struct redis_shard *next_of(void *ctx, struct slice topic, struct slice id)
{
    const struct redis_set *set = ctx;
    struct redis_set *into = set->redis->into;
    return set == set->redis->from ? into->shards[part_of_job(into, topic, id)] : NULL;
}

static struct redis_shard *peer_of(void *ctx, struct slice topic, struct slice id)
{
    const struct redis_set *set = ctx;
    return set->shards[part_of_job(ctx, topic, id)];
}

/* Returns NULL if there is no such place. */
static struct redis_shard *peer_at(void *ctx, uint32_t place)
{
    const struct redis_set *set = ctx;
    return place < set->generation.shards ? set->shards[place] : NULL;
}

/* Returns the counters of a place. They outlive the shard, and the shard at the same place in the
 * next generation continues them. NULL if memory runs out; then nothing is counted. */
static struct redis_tally *tally_of(struct redis *redis, uint32_t place)
{
    if (!redis->tallies[place])
        redis->tallies[place] = calloc(1, sizeof *redis->tallies[place]);
    return redis->tallies[place];
}

static bool shards_new(struct redis_set *set)
{
    struct redis *redis = set->redis;
    for (uint32_t i = 0; i < set->generation.shards; i++) {
        struct redis_shard_options options = {
            .reactor = redis->reactor,
            .topology = redis->topology,
            .url = &redis->url,
            .server = redis->server,
            .name = redis->name,
            .inspection = &redis->inspection,
            .index = redis_generation_number_of(&set->generation, i),
            .place = i,
            .generation = set->generation,
            .topics_max = redis->options.topics_max,
            .wait_replicas = redis->options.wait_replicas,
            .body_bytes_max = redis->options.body_bytes_max,
            .timeout_ms = redis->options.timeout_ms,
            .require_durability = redis->options.require_durability,
            /* without a cluster, all shards are on one master */
            .asks = i == 0 || redis->url.kind == REDIS_CLUSTER,
            .learned = on_learned,
            .learned_ctx = set,
            .moved = on_moved,
            .next_of = next_of,
            .peer_of = peer_of,
            .peer_at = peer_at,
            .test_clock_ms = redis->options.test_clock_ms,
            .held = redis->options.test_clock_ms ? redis_test_clock_held : NULL,
            .active = redis->options.test_clock_ms ? redis_test_clock_active : NULL,
            .test_clock_ctx = redis,
            .waits = redis->waits,
            .desk = redis->feed ? feed_desk_at(redis->feed, 0) : NULL,
            .figures = &redis->figures,
            .tally = tally_of(redis, i),
            .script_us = redis->script_us};
        if (!(set->shards[i] = redis_shard_new(&options, &set->parts[i])))
            return false;
        redis->figures.shards++;
    }
    return true;
}

/* The shards of one master have the same clock. */
static int64_t skew_in(void *ctx)
{
    const struct redis_set *set = ctx;
    return redis_shard_skew_ms(set->shards[0]);
}

/* Sends leaves again in the next step. */
static void repeat_in(void *ctx)
{
    struct redis_set *set = ctx;
    set->repeats = true;
    reactor_iterate_again(set->redis->reactor);
}

static struct sharded *make_sharded(struct redis_set *set)
{
    return sharded_new(&(struct sharded_options){
        .parts = set->parts,
        .part_count = set->generation.shards,
        /* The first shard for takes: random, so that servers do not all start with the same one. */
        .home = (uint32_t)(random_u64() % set->generation.shards),
        .part_of_job = part_of_job,
        .number_of_job = number_in,
        .part_of_lease = part_of_lease,
        .refuse = refuse_in,
        .skew_ms = skew_in,
        .one_by_name = true,
        .joins_batches = true,
        .joins_expire = true,
        .repeat = repeat_in,
        .ctx = set});
}

void redis_set_free(struct redis_set *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->generation.shards; i++) {
        set->redis->figures.shards -= set->shards[i] != NULL;
        redis_shard_free(set->shards[i]);
    }
    sharded_free(set->sharded);
    free(set);
}

/* Creates a set. A single shard is the queue itself; several are combined. */
struct redis_set *redis_set_new(struct redis *redis, const struct redis_generation *generation)
{
    struct redis_set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->redis = redis;
    set->generation = *generation;
    bool is_made = shards_new(set);
    if (is_made && generation->shards > 1)
        is_made = (set->sharded = make_sharded(set)) != NULL;
    if (!is_made) {
        redis_set_free(set);
        return NULL;
    }
    set->queue = set->sharded ? sharded_queue(set->sharded) : set->parts[0];
    return set;
}

/* ---- from one generation to the next ---- */

static void log_generation(const char *event, const struct redis_set *set)
{
    log_event(LOG_INFO, event, LOG_NUMBER("shards", set->generation.shards),
              LOG_NUMBER("generation", set->generation.number));
}

static bool is_same(const struct redis_generation *a, const struct redis_generation *b)
{
    return a->number == b->number && a->shards == b->shards;
}

/* Switches to the next generation, which has been announced; from now on there are two. If memory
 * runs out, the next step tries again. */
static void adopt(struct redis *redis, const struct redis_generation *target)
{
    struct redis_set *next = redis->ready;
    if (next && !is_same(&next->generation, target))
        return;
    if (!next && !(next = redis_set_new(redis, target)))
        return;
    redis->ready = next;
    if (!handover_begin(redis->handover, next->queue))
        return;
    redis->from = redis->into;
    redis->into = next;
    redis->ready = NULL;
    redis->is_ended = false;
    for (uint32_t i = 0; i < redis->from->generation.shards; i++)
        redis_shard_go_on(redis->from->shards[i], "adopt", target, 0, NULL, NULL);
    log_generation("the number of shards is being changed", next);
}

static bool is_empty(const struct redis_set *set)
{
    for (uint32_t i = 0; i < set->generation.shards; i++)
        if (set->states[i] != REDIS_MOVE_CLOSED)
            return false;
    return true;
}

/* Acts on what the shards have reported about generations. Runs at the end of a step, not inside a
 * callback of a shard. */
static void follow_generations(struct redis *redis)
{
    if (redis->stopping)
        return;
    if (redis->from && !redis->is_ended && is_empty(redis->from)) {
        redis->is_ended = true;
        handover_end(redis->handover);
        log_generation("the number of shards was changed", redis->into);
    }
    if (redis->from && redis->is_ended && set_is_done(redis->from) &&
        handover_is_over(redis->handover)) {
        redis_set_free(redis->from);
        redis->from = NULL;
    }
    if (!redis->from && redis->into->target.shards)
        adopt(redis, &redis->into->target);
}

/* ---- attach ---- */

static void set_waits(struct redis_set *set, struct redis_waits *waits)
{
    for (uint32_t i = 0; i < set->generation.shards; i++)
        redis_shard_set_waits(set->shards[i], waits);
}

static bool queue_new(struct redis *redis)
{
    redis->into = redis_set_new(redis, &redis->inspection.generation);
    if (!redis->into)
        return false;
    redis->handover =
        handover_new(&(struct handover_options){.queue = redis->into->queue,
                                                .is_sealed = is_sealed,
                                                .number_of_job = number_in_either,
                                                .part_of_lease = set_of_lease,
                                                .refuse = refuse_call,
                                                .ctx = redis,
                                                .timeout_ms = redis->options.timeout_ms});
    if (!redis->handover || !(redis->waits = redis_waits_new(handover_queue(redis->handover))))
        return false;
    set_waits(redis->into, redis->waits);
    if (redis->inspection.next.shards)
        adopt(redis, &redis->inspection.next);
    redis->queue = redis_waits_queue(redis->waits);
    redis->queue->clock = redis_test_clock(redis);
    redis->queue->door = queue_door_new(redis->options.body_bytes_max, random_u64(), clock_wall_ms);
    return redis->queue->door != NULL;
}

void redis_set_feed(struct redis *redis, struct feed *feed)
{
    redis->feed = feed;
}

int redis_attach(struct redis *redis, struct reactor *reactor, struct queue **out, char *error,
                 size_t error_bytes)
{
    redis->reactor = reactor;
    redis->topology = redis_topology_new(reactor, &redis->url);
    redis->deadline = deadline_new(reactor, on_deadline, redis);
    if (!redis->topology || !redis->deadline || !queue_new(redis)) {
        snprintf(error, error_bytes, "cannot connect to Redis: out of memory or file descriptors");
        return -ENOMEM; /* redis_free releases what was created */
    }
    reactor_at_iteration_end(reactor, redis_step, redis);
    *out = redis->queue;
    return 0;
}

/* ---- stop ---- */

static void set_stop(struct redis_set *set)
{
    for (uint32_t i = 0; set && i < set->generation.shards; i++)
        redis_shard_stop(set->shards[i]);
}

void redis_stop(struct redis *redis, void (*stopped)(void *ctx), void *ctx)
{
    redis->stopping = true;
    redis->stopped = stopped;
    redis->stopped_ctx = ctx;
    redis_waits_stop(redis->waits);
    set_stop(redis->from);
    set_stop(redis->into);
    reactor_iterate_again(redis->reactor);
}

void redis_free(struct redis *redis)
{
    if (!redis)
        return;
    if (redis->reactor)
        reactor_remove_at_iteration_end(redis->reactor, redis_step, redis);
    if (redis->queue)
        queue_door_free(redis->queue->door);
    /* First the shards that receive jobs: jobs on their way end there. */
    redis_set_free(redis->ready);
    redis_set_free(redis->into);
    redis_set_free(redis->from);
    handover_free(redis->handover);
    redis_waits_free(redis->waits);
    if (redis->topology)
        redis_topology_free(redis->topology);
    if (redis->deadline)
        deadline_free(redis->deadline);
    for (uint32_t i = 0; i < REDIS_SHARDS_MAX; i++)
        free(redis->tallies[i]);
    redis_tls_close(&redis->url);
    explicit_bzero(&redis->url, sizeof redis->url);
    free(redis);
}

/* ---- figures ---- */

void redis_figures(const struct redis *redis, struct redis_figures *out)
{
    *out = redis->figures;
}

uint32_t redis_script_count(void)
{
    return REDIS_SCRIPTS_SERVED;
}

const char *redis_script_name_at(uint32_t script)
{
    assert(script < REDIS_SCRIPTS_SERVED);
    return redis_script_name((enum redis_script)(script + 1));
}

const struct buckets *redis_script_durations_us(const struct redis *redis, uint32_t script)
{
    assert(script < REDIS_SCRIPTS_SERVED);
    return &redis->script_us[script + 1];
}

uint32_t redis_shard_count(const struct redis *redis)
{
    return redis->into ? redis->into->generation.shards : 0;
}

/* Fills in the figures of a shard. Without a cluster, the master of the first shard is that of
 * all. */
void redis_shard_figures(const struct redis *redis, uint32_t shard, struct redis_shard_summary *out)
{
    const struct redis_set *set = redis->into;
    assert(shard < redis_shard_count(redis));
    uint32_t asked = redis->url.kind == REDIS_CLUSTER ? shard : 0;
    const struct redis_master *master = &set->masters[asked];
    *out = (struct redis_shard_summary){.is_full = master->is_full,
                                        .version = master->version,
                                        .replicas = master->replicas,
                                        .durability = set->is_known[asked]
                                                          ? redis_master_durability(master)
                                                          : REDIS_DURABILITY_UNKNOWN};
    redis_shard_show(set->shards[shard], out);
}

static bool set_is_quiet(const struct redis_set *set, int64_t now_us)
{
    for (uint32_t i = 0; set && i < set->generation.shards; i++)
        if (!redis_shard_is_quiet(set->shards[i], now_us))
            return false;
    return true;
}

bool redis_is_quiet(const struct redis *redis)
{
    int64_t now_us = clock_inner_us();
    return set_is_quiet(redis->from, now_us) && set_is_quiet(redis->into, now_us) &&
           now_us < redis->look_ms * 1000;
}
