/*
 * shard: one shard of the queue on Redis, itself a queue (queue/queue.h).
 *
 * Requests of one loop iteration travel together: the pushes of a topic in one script call, changes
 * likewise; the answers and takes of all topics in one call (shard.h). While such a call is
 * with Redis, the next one collects requests, as in a group commit.
 *
 * Time. Every reply contains the time and the topic of the shard's next event; notifications
 * announce earlier ones. At that time the local waiters for the topic are notified, and their takes
 * leave in one step, which makes the jobs due and leases them. If several servers have such
 * waiters, one of them, the mover, acts immediately and the others a little later; a server without
 * waiters acts later still. A check each second finds changes whose notification was lost. Decision
 * 35.
 *
 * Runs on the reactor's thread. Owner: redis.c, which runs the steps.
 */
#ifndef TARRY_REDIS_SHARD_H
#define TARRY_REDIS_SHARD_H

#include "redis/inspect.h"
#include "redis/topology.h"

struct redis_shard;
struct redis_waits;
struct feed_desk;

/* A shard's progress towards the next generation, as stored in its core (scripts/README.md). */
enum redis_move_state {
    REDIS_MOVE_NONE = 0,
    REDIS_MOVE_ANNOUNCED, /* the next generation is announced: new jobs go there */
    REDIS_MOVE_SEALED,    /* the shard takes no new jobs */
    REDIS_MOVE_LEAVING,   /* its jobs are moving out */
    REDIS_MOVE_CLOSED     /* no jobs are left */
};

struct redis_shard_options {
    struct reactor *reactor;
    struct redis_topology *topology;
    const struct redis_url *url;
    const char *server; /* 8 hex digits and NUL: the name of this server */
    char *name;         /* the queue's name (REDIS_NAME_BYTES), kept current by the first shard */
    const struct redis_inspection *inspection;
    uint32_t index;                     /* in leases and cursors; different in each generation */
    uint32_t place;                     /* in its generation */
    struct redis_generation generation; /* the shard's own */
    uint32_t topics_max, wait_replicas;
    uint64_t body_bytes_max;
    int64_t timeout_ms;
    enum redis_durability require_durability;
    /* Whether this shard's session also queries its master's settings for other shards, and the
     * callback that receives them. */
    bool asks;
    void (*learned)(void *ctx, uint32_t shard, const struct redis_master *master);
    void *learned_ctx;
    /* Reports the shard's progress and its target generation, once a second and immediately after a
     * change. */
    void (*moved)(void *ctx, uint32_t shard, enum redis_move_state state,
                  const struct redis_generation *target);
    /* Returns the shard of the next generation that a job moves to. NULL: that generation is not
     * available yet. */
    struct redis_shard *(*next_of)(void *ctx, struct slice topic, struct slice id);
    /* Return the shard of its generation that a job is in, and the one at a place. */
    struct redis_shard *(*peer_of)(void *ctx, struct slice topic, struct slice id);
    struct redis_shard *(*peer_at)(void *ctx, uint32_t place);
    int64_t test_clock_ms; /* as in session.h; 0: an ordinary clock */
    /* Reports the time at which the first shard's clock is held. May be NULL. */
    void (*held)(void *ctx, int64_t at_ms);
    /* Called inside each call that does more than read. May be NULL. */
    void (*active)(void *ctx);
    void *test_clock_ctx;
    struct redis_waits *waits;     /* informed of ends of awaited jobs; may be NULL */
    struct feed_desk *desk;        /* receives events; may be NULL */
    struct redis_figures *figures; /* for all shards; counts those that are up */
    struct redis_tally *tally;     /* for this shard, as in session.h; may be NULL */
    struct buckets *script_us;
};

/* Returns NULL if memory runs out. `queue` is the shard as a queue. */
struct redis_shard *redis_shard_new(const struct redis_shard_options *options,
                                    struct queue **queue);
/* Sets who is informed of ends of awaited jobs; options.waits otherwise. */
void redis_shard_set_waits(struct redis_shard *shard, struct redis_waits *waits);
/* Frees the shard. Not from one of its callbacks. Outstanding calls get no reply. */
void redis_shard_free(struct redis_shard *shard);

/* Runs at the end of each loop iteration: notifies, replies, sends; and if `looks`, checks for
 * changes without a notification. Returns the inner time, in microseconds as `now_us`, at which it
 * needs to run next; INT64_MAX: never. */
int64_t redis_shard_step(struct redis_shard *shard, int64_t now_us, bool looks);

/* Takes the shard one step towards the generation `target`, or prepares it as one that receives
 * jobs: "prepare", "announce", "seal", "leave"; records that this server has learned of it: "adopt";
 * or asks for the open batches: "ask" (scripts/reshard.lua). The numbers of a prepared shard begin above `least`. `done` (may
 * be NULL) runs once, not inside this call, with QUEUE_OK or the reason for the failure; `target`
 * is then the shard's target generation, its shards 0: no target. */
void redis_shard_go_on(struct redis_shard *shard, const char *verb,
                       const struct redis_generation *target, uint64_t least,
                       void (*done)(void *ctx, enum queue_status status,
                                    const struct redis_generation *target),
                       void *ctx);

/* Returns the last job or delivery number known to be assigned by the shard. */
uint64_t redis_shard_number(const struct redis_shard *shard);

/* Returns the number of open batches after the verb "ask", and sets *job to the text of a job that
 * waits: its id and topic. */
uint32_t redis_shard_batches(const struct redis_shard *shard, const char **job);

/* Replies to a call with this status at the end of the step. */
void redis_shard_refuse(struct redis_shard *shard, enum queue_status status,
                        struct queue_reply_to reply_to);

/* Makes the shard reply QUEUE_STOPPING to new calls. */
void redis_shard_stop(struct redis_shard *shard);
/* Returns whether every call has its reply. */
bool redis_shard_is_done(const struct redis_shard *shard);
/* Returns whether no call is in progress and nothing is due. */
bool redis_shard_is_quiet(const struct redis_shard *shard, int64_t now_us);

/* Returns how far the wall clock of its master is ahead of its clock. */
int64_t redis_shard_skew_ms(const struct redis_shard *shard);

/* Functions for a shard with a held clock, in tests. The first two return its time, 0 if not known
 * yet, and the time of its next event, INT64_MAX: never. The third moves the clock, or with -1
 * queries the next event, of which the shard only keeps a lower bound; `done` runs once, not inside
 * the call. */
int64_t redis_shard_held_ms(const struct redis_shard *shard);
int64_t redis_shard_next_ms(const struct redis_shard *shard);
void redis_shard_hold(struct redis_shard *shard, int64_t at_ms,
                      void (*done)(void *ctx, bool is_good), void *ctx);

/* Fills in the fields known to the shard and leaves the rest of `out` unchanged. */
void redis_shard_show(const struct redis_shard *shard, struct redis_shard_summary *out);

#endif
