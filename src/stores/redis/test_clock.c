/* A queue on Redis whose clock stands still until it is moved, for tests: scripts/adjust.lua sets
 * the clocks of all shards to the same time. */
#include "redis/redis_core.h"

#include <assert.h>

void redis_test_clock_init(struct redis *redis)
{
    redis->test_clock.clock = (struct clock)CLOCK_INIT;
    redis->test_clock.next_ms = INT64_MAX;
    if (redis->options.test_clock_ms)
        clock_hold(&redis->test_clock.clock, redis->options.test_clock_ms,
                   redis->options.test_clock_ms);
}

struct clock *redis_test_clock(struct redis *redis)
{
    return redis->options.test_clock_ms ? &redis->test_clock.clock : NULL;
}

void redis_test_clock_held(void *ctx, int64_t at_ms)
{
    struct redis *redis = ctx;
    clock_hold(&redis->test_clock.clock, at_ms, at_ms);
}

void redis_test_clock_active(void *ctx)
{
    const struct redis *redis = ctx;
    if (redis->test_clock.active)
        redis->test_clock.active(redis->test_clock.active_ctx);
}

void redis_on_active(struct redis *redis, void (*active)(void *ctx), void *ctx)
{
    redis->test_clock.active = active;
    redis->test_clock.active_ctx = ctx;
}

static void on_put(void *ctx, bool is_good)
{
    struct redis *redis = ctx;
    redis->test_clock.left--;
    redis->test_clock.has_failed |= !is_good;
}

/* Returns the latest time among the shards, if a server that ended during a move left them apart.
 * 0: they agree. */
static int64_t furthest_ms(const struct redis_set *set)
{
    int64_t most_ms = redis_shard_held_ms(set->shards[0]), least_ms = most_ms;
    for (uint32_t i = 1; i < set->generation.shards; i++) {
        int64_t held_ms = redis_shard_held_ms(set->shards[i]);
        most_ms = held_ms > most_ms ? held_ms : most_ms;
        least_ms = held_ms < least_ms ? held_ms : least_ms;
    }
    return most_ms > least_ms ? most_ms : 0;
}

/* Sets the clocks of all shards; -1: only queries the next event. */
static void hold_all(struct redis *redis, int64_t to_ms)
{
    const struct redis_set *set = redis->into;
    redis->test_clock.left = set->generation.shards;
    for (uint32_t i = 0; i < set->generation.shards; i++)
        redis_shard_hold(set->shards[i], to_ms, on_put, redis);
}

void redis_settle(struct redis *redis, int64_t to_ms, redis_settled *settled, void *ctx)
{
    const struct redis_set *set = redis->into;
    int64_t apart_ms = furthest_ms(set);
    assert(!redis->test_clock.settled && !redis->test_clock.left);
    redis->test_clock.settled = settled;
    redis->test_clock.ctx = ctx;
    redis->test_clock.has_failed = redis->test_clock.has_looked = false;
    redis->test_clock.happened += to_ms >= redis->test_clock.next_ms;
    if (to_ms < 0 && apart_ms)
        to_ms = apart_ms;
    if (to_ms >= 0)
        hold_all(redis, to_ms);
    reactor_iterate_again(redis->reactor);
}

void redis_test_clock_step(struct redis *redis, bool is_quiet)
{
    const struct redis_set *set = redis->into;
    if (redis->test_clock.left || !(redis->test_clock.has_failed || is_quiet))
        return;
    if (!redis->test_clock.has_failed && !redis->test_clock.has_looked) {
        redis->test_clock.has_looked = true;
        hold_all(redis, -1);
        reactor_iterate_again(redis->reactor);
        return;
    }
    redis_settled *settled = redis->test_clock.settled;
    int64_t next_ms = INT64_MAX;
    for (uint32_t i = 0; i < set->generation.shards; i++) {
        int64_t shard_ms = redis_shard_next_ms(set->shards[i]);
        next_ms = shard_ms < next_ms ? shard_ms : next_ms;
    }
    redis->test_clock.settled = NULL;
    redis->test_clock.next_ms = next_ms;
    settled(redis->test_clock.ctx, !redis->test_clock.has_failed, next_ms,
            redis->test_clock.happened);
}
