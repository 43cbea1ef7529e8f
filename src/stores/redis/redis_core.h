/*
 * redis_core: what a queue on Redis (redis.h) consists of, for its two files: redis.c, and reshard.c,
 * which takes it to another number of shards.
 */
#ifndef TARRY_REDIS_REDIS_CORE_H
#define TARRY_REDIS_REDIS_CORE_H

#include "base/clock.h"
#include "queue/handover.h"
#include "queue/sharded.h"
#include "redis/redis.h"
#include "redis/session.h"
#include "redis/shard.h"

/* The shards of one generation, and the queue they are together. */
struct redis_set {
    struct redis *redis;
    struct redis_generation generation;
    struct redis_shard *shards[REDIS_SHARDS_MAX];
    struct queue *parts[REDIS_SHARDS_MAX]; /* the same, as queues */
    enum redis_move_state states[REDIS_SHARDS_MAX];
    struct redis_generation target; /* where the first shard says it goes; its shards 0: nowhere */
    bool is_heard;                  /* the first shard has said so */
    struct redis_master masters[REDIS_SHARDS_MAX];
    bool is_known[REDIS_SHARDS_MAX];
    struct sharded *sharded; /* NULL: there is one shard */
    struct queue *queue;
};

struct redis {
    struct redis_options options;
    struct redis_url url;
    struct redis_inspection inspection; /* kept true: of each shard's master, as last heard */
    char server[9], name[REDIS_NAME_BYTES];
    struct reactor *reactor;
    struct feed *feed; /* NULL: nothing is told */
    struct redis_topology *topology;
    struct redis_set *from; /* whose jobs go over into `into`; NULL: there is only that */
    struct redis_set *into;
    struct redis_set *ready;   /* made, but nobody was told yet; NULL: none is */
    struct handover *handover; /* between the two */
    struct queue *queue;       /* of them all */
    struct deadline *deadline;
    int64_t look_ms; /* the next regular look */
    struct redis_figures figures;
    struct redis_tally *tallies[REDIS_SHARDS_MAX]; /* by a shard's place in its generation */
    struct buckets script_us[REDIS_SCRIPTS_SERVED + 1];
    struct {
        struct clock clock;     /* where options.test_clock_ms */
        redis_settled *settled; /* NULL: nobody waits */
        void *ctx;
        uint32_t left; /* shards whose clock is on its way */
        bool has_failed,
            has_looked; /* looked: what is next is known, not just a lower bound of it */
        int64_t next_ms;
        uint64_t happened;
        void (*active)(void *ctx);
        void *active_ctx;
    } test_clock;
    bool stopping, is_ended; /* ended: nobody asks `from` any more */
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    void (*after_turn)(void *ctx, int64_t now_ms); /* NULL: nothing */
    void *after_turn_ctx;
};

/* test_clock.c: what the shards tell; and at the end of a turn, while somebody waits for that, whether all has settled. */
void redis_test_clock_init(struct redis *redis);
void redis_test_clock_held(void *ctx, int64_t at_ms);
void redis_test_clock_active(void *ctx);
void redis_test_clock_turn(struct redis *redis, bool is_quiet);

/* NULL: out of memory. */
struct redis_set *redis_set_new(struct redis *redis, const struct redis_generation *generation);
void redis_set_free(struct redis_set *set); /* NULL: nothing */

#endif
