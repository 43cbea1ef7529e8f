/*
 * shard: one shard of the queue on Redis, as a queue of its own (queue/queue.h).
 *
 * What is asked in a turn travels together: pushes of a topic in one call of a script, changes likewise;
 * answers and takes of all topics in one (shard_turn.h). While such a call is with Redis the next one
 * fills, as a group commit does.
 *
 * Time. Every answer says when the shard's next event is and of which topic, the news say when one comes
 * earlier. At that moment those who wait for the topic here are told, and what they take leaves as a
 * turn, which lets the jobs become due and leases them. Of several servers with such waiters one, the
 * mover, comes at once, the others a little later; a server where nobody waits comes later still. A look
 * each second makes good what no message told. Decision 35.
 *
 * All on the reactor's thread. Owner: redis.c, which calls the turns.
 */
#ifndef TARRY_REDIS_SHARD_H
#define TARRY_REDIS_SHARD_H

#include "redis/inspect.h"
#include "redis/topology.h"

struct redis_shard;
struct feed_desk;

/* How far a shard is on its way to the next generation; as in its core (scripts/README.md). */
enum redis_move_state {
    REDIS_MOVE_NONE = 0,
    REDIS_MOVE_ANNOUNCED, /* the next generation is told: what is new goes there */
    REDIS_MOVE_SEALED,    /* it takes no new job */
    REDIS_MOVE_LEAVING,   /* its jobs leave */
    REDIS_MOVE_CLOSED     /* none is left */
};

struct redis_shard_options {
    struct reactor *reactor;
    struct redis_topology *topology;
    const struct redis_url *url;
    const char *server; /* 8 hex digits and NUL: names this server */
    char *name;         /* the queue's (REDIS_NAME_BYTES); the first shard keeps it true */
    const struct redis_inspection *inspection;
    uint32_t index;                     /* in leases and cursors; another one in each generation */
    uint32_t place;                     /* in its generation */
    struct redis_generation generation; /* its own */
    uint32_t topics_max, wait_replicas;
    uint64_t body_bytes_max;
    int64_t patience_ms;
    enum redis_durability require_durability;
    /* Whether this one's session asks what is in force on its master for others, too; and who hears. */
    bool asks;
    void (*learned)(void *ctx, uint32_t shard, const struct redis_master *master);
    void *learned_ctx;
    /* How far it is, once a second and at once where that changes; and to which generation. */
    void (*moved)(void *ctx, uint32_t shard, enum redis_move_state state,
                  const struct redis_generation *target);
    /* The shard of the next generation that a job goes to. NULL: that generation is not here yet. */
    struct redis_shard *(*next_of)(void *ctx, struct slice topic, struct slice id);
    int64_t test_clock_ms; /* as in session.h; 0: its clock goes */
    /* The clock of the first shard stands there. NULL: nobody wants to know. */
    void (*held)(void *ctx, int64_t at_ms);
    /* NULL, or called inside each call that does more than look. */
    void (*active)(void *ctx);
    void *test_clock_ctx;
    struct feed_desk *desk;        /* where what happens is told; NULL: nowhere */
    struct redis_figures *figures; /* of all shards; keeps count of those that are up */
    struct redis_tally *tally;     /* of this one, as in session.h; or NULL */
    struct buckets *script_us;
};

/* NULL: no memory. `queue` is the shard as a queue of its own. */
struct redis_shard *redis_shard_new(const struct redis_shard_options *options,
                                    struct queue **queue);
/* Not from one of its callbacks. What has no reply yet gets none. */
void redis_shard_free(struct redis_shard *shard);

/* At the end of each turn: tells, answers, sends; and where it `looks`, asks whether there is anything
 * that no message told. Returns the inner time, in microseconds as `now_us`, of the turn it wants next; INT64_MAX: none. */
int64_t redis_shard_turn(struct redis_shard *shard, int64_t now_us, bool looks);

/* Takes the shard a step on its way to the generation `target`, or makes it ready to be one of those
 * that jobs come to: "prepare", "announce", "seal", "leave"; or says that this server knows of it:
 * "adopt" (scripts/reshard.lua). Numbers of one that is made ready begin above `least`. `done` (or NULL), once, not inside this call: QUEUE_OK, or why not; then `target` is where it goes, its shards 0: nowhere. */
void redis_shard_go_on(struct redis_shard *shard, const char *verb,
                       const struct redis_generation *target, uint64_t least,
                       void (*done)(void *ctx, enum queue_status status,
                                    const struct redis_generation *target),
                       void *ctx);

/* The last number of a job or a delivery that it is known to have given out. */
uint64_t redis_shard_number(const struct redis_shard *shard);

/* Answers a call with this status at the end of the turn. */
void redis_shard_refuse(struct redis_shard *shard, enum queue_status status,
                        struct queue_reply_to reply_to);

/* From now on calls are answered QUEUE_STOPPING. */
void redis_shard_stop(struct redis_shard *shard);
/* Every call has its reply. */
bool redis_shard_is_done(const struct redis_shard *shard);
/* Nothing under way, nothing due. */
bool redis_shard_is_quiet(const struct redis_shard *shard, int64_t now_us);

/* Of a shard whose clock stands, for tests: where, 0: not known yet; when something happens next by it, INT64_MAX: nothing; and
 * puts it to there, or where -1 looks up what is next, of which the shard keeps but a lower bound: `done` once, not inside the
 * call. */
int64_t redis_shard_held_ms(const struct redis_shard *shard);
int64_t redis_shard_next_ms(const struct redis_shard *shard);
void redis_shard_hold(struct redis_shard *shard, int64_t at_ms,
                      void (*done)(void *ctx, bool is_good), void *ctx);

/* What it knows by itself; the rest of `out` is left alone. */
void redis_shard_show(const struct redis_shard *shard, struct redis_shard_view *out);

#endif
