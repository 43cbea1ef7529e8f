/*
 * redis_core: the state of a queue on Redis (redis.h), for its two files: redis.c, and reshard.c,
 * which changes the number of shards.
 */
#ifndef TARRY_REDIS_REDIS_CORE_H
#define TARRY_REDIS_REDIS_CORE_H

#include "base/clock.h"
#include "queue/handover.h"
#include "queue/sharded.h"
#include "redis/redis.h"
#include "redis/session.h"
#include "redis/shard.h"
#include "redis/waits.h"

/* The shards of one generation, and the queue that they form. */
struct redis_set {
    struct redis *redis;
    struct redis_generation generation;
    struct redis_shard *shards[REDIS_SHARDS_MAX];
    struct queue *parts[REDIS_SHARDS_MAX]; /* the same shards, as queues */
    enum redis_move_state states[REDIS_SHARDS_MAX];
    struct redis_generation target; /* as the first shard reports it; its shards 0: no target */
    bool has_reported;              /* the first shard has reported the target */
    struct redis_master masters[REDIS_SHARDS_MAX];
    bool is_known[REDIS_SHARDS_MAX];
    struct sharded *sharded; /* NULL: a single shard */
    bool repeats;            /* leaves are to be sent again (queue/sharded.h) */
    struct queue *queue;
};

struct redis {
    struct redis_options options;
    struct redis_url url;
    struct redis_inspection inspection; /* kept current from the reports of the masters */
    char server[9], name[REDIS_NAME_BYTES];
    struct reactor *reactor;
    struct feed *feed; /* NULL: events are not reported */
    struct redis_topology *topology;
    struct redis_set *from; /* the generation whose jobs move to `into`; NULL: only `into` exists */
    struct redis_set *into;
    struct redis_set *ready;   /* created, but not announced yet; may be NULL */
    struct handover *handover; /* between `from` and `into` */
    struct redis_waits *waits; /* in front of the handover */
    struct queue *queue;       /* of all generations, with waits */
    struct deadline *deadline;
    int64_t look_ms; /* the next regular check */
    struct redis_figures figures;
    struct redis_tally *tallies[REDIS_SHARDS_MAX]; /* by the shard's place */
    struct buckets script_us[REDIS_SCRIPTS_SERVED + 1];
    struct {
        struct clock clock;     /* used if options.test_clock_ms is set */
        redis_settled *settled; /* NULL: no settle in progress */
        void *ctx;
        uint32_t left; /* shards whose clock is still being set */
        bool has_failed,
            has_looked; /* has_looked: the next event is exact, not just a lower bound */
        int64_t next_ms;
        uint64_t happened;
        void (*active)(void *ctx);
        void *active_ctx;
    } test_clock;
    bool stopping, is_ended; /* is_ended: `from` is no longer used */
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    void (*after_iteration)(void *ctx, int64_t now_ms); /* may be NULL */
    void *after_iteration_ctx;
};

/* Functions of test_clock.c, which take the reports of the shards. The last one runs at the end of
 * a step while a settle is in progress and checks whether all shards have settled. */
void redis_test_clock_init(struct redis *redis);
void redis_test_clock_held(void *ctx, int64_t at_ms);
void redis_test_clock_active(void *ctx);
void redis_test_clock_step(struct redis *redis, bool is_quiet);

/* Returns NULL if memory runs out. */
struct redis_set *redis_set_new(struct redis *redis, const struct redis_generation *generation);
void redis_set_free(struct redis_set *set); /* accepts NULL */

#endif
