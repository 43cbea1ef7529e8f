/*
 * redis: the delay queue on Redis: several servers, one queue. The public face of this room.
 *
 * All state is in Redis and every change is one script there, so servers are stateless: any takes
 * any request, any may die at any moment. Jobs are spread over shards by hash of topic and id; a
 * shard's keys share a hash tag, so a cluster keeps them on one node.
 *
 * Life
 *   1. redis_open: blocking, before the reactors run: reads the URL, reaches every master, reads
 *      what durability is in force, fixes the number of shards.
 *   2. redis_attach on a reactor: the handle that fronts use. Connections are made in the loop's
 *      turns; calls made before wait for them.
 *   3. redis_stop: new calls are answered QUEUE_STOPPING, what is under way is finished or, after
 *      `patience_ms` and at most REDIS_STOP_MS, answered QUEUE_UNAVAILABLE; then `stopped`.
 *   4. redis_free after the reactor has stopped.
 *
 * One reactor per struct redis. Everything but redis_open on its thread.
 */
#ifndef TARRY_REDIS_REDIS_H
#define TARRY_REDIS_REDIS_H

#include "base/buckets.h"
#include "net/reactor.h"
#include "queue/queue.h"

struct redis;

enum {
    REDIS_SHARDS_MAX = 64,
    REDIS_URL_BYTES_MAX = 1024,
    REDIS_NAME_BYTES = 33, /* of a queue's random name, with its NUL */
    REDIS_STOP_MS = 3000 /* who stops a server kills it when it takes long, whatever the patience */
};

/* From weak to strong, as far as it can be learned; of several masters the weakest counts. */
enum redis_durability {
    REDIS_DURABILITY_NONE = 0, /* Redis may delete jobs when memory is short: no server starts so */
    REDIS_DURABILITY_UNKNOWN = 1, /* the server does not let its configuration be read */
    REDIS_DURABILITY_MEMORY,      /* no append-only file: a restart of Redis loses jobs */
    REDIS_DURABILITY_NO,          /* appendfsync no */
    REDIS_DURABILITY_EVERYSEC,
    REDIS_DURABILITY_ALWAYS
};
/* "none", "unknown", "memory", "no", "everysec", "always"; parse: 0 when it is none of the latter
 * five. */
const char *redis_durability_name(enum redis_durability durability);
enum redis_durability redis_durability_parse(struct slice name);

struct redis_options {
    const char *url; /* see url.h */
    uint32_t shards; /* 0: those there are, one for each master where there are none yet */
    bool exists;     /* refuse to begin a new queue */
    uint64_t body_bytes_max;
    uint32_t topics_max;
    uint32_t wait_replicas;                   /* an answered change has reached so many replicas */
    enum redis_durability require_durability; /* refuse to start on less; 0: on anything */
    int64_t patience_ms; /* how long a call waits for a shard out of reach; 0: 10 s */
    /* Its jobs go by a clock that stands still until it is moved, for tests, and that begins then where there are
     * none yet. All servers of a queue do, or none. 0: an ordinary clock. */
    int64_t test_clock_ms;
};

/* 0 or negative errno with `error`: what, where, what to do. */
int redis_open(const struct redis_options *options, struct redis **out, char *error,
               size_t error_bytes);
/* The queue's own name: 32 hex digits, drawn by the first server on it, the same for all; another
 * one after Redis lost its data. Empty where a full Redis had no room for it, until the first shard
 * is reached. On the reactor's thread, or before it runs. */
const char *redis_store_name(const struct redis *redis);
struct feed;
/* Where what happens is told, through whatever server; before redis_attach. */
void redis_set_feed(struct redis *redis, struct feed *feed);

int redis_attach(struct redis *redis, struct reactor *reactor, struct queue **out, char *error,
                 size_t error_bytes);
void redis_stop(struct redis *redis, void (*stopped)(void *ctx), void *ctx);
void redis_free(struct redis *redis);

/* Counters since the start, for /metrics. On the reactor's thread. */
struct redis_figures {
    uint64_t calls, jobs; /* scripts sent, items in them */
    uint64_t resent;      /* calls whose fate had to be settled by asking again */
    uint64_t reconnects, redirects, failovers;
    uint64_t clock_disagreements;
    uint64_t losses;    /* times a shard's core was gone: Redis lost its data */
    uint64_t news_lost; /* looks that found what no message had told */
    uint64_t bytes_sent, bytes_received;
    uint32_t shards_up, shards;
};
void redis_figures(const struct redis *redis, struct redis_figures *out);

/* Of calls, in microseconds. */
extern const struct bucket_bounds redis_call_bounds;

/* The scripts that servers call, from 0: how many there are; the name of one; how long its calls
 * took, from being sent to the reply, in microseconds: on the way, in line, and in Redis. On the
 * reactor's thread. */
uint32_t redis_scripts(void);
const char *redis_script_title(uint32_t script);
const struct buckets *redis_script_us(const struct redis *redis, uint32_t script);

/* One shard of the present generation, of redis_shards. On the reactor's thread; the pointers are
 * good until the loop's next turn. */
struct redis_shard_view {
    const char *host; /* of its master, as last found; empty: not yet. A path where port is 0 */
    uint16_t port;
    bool is_up;
    bool is_full; /* its master has no room for more */
    const char *version;
    uint32_t replicas;
    enum redis_durability durability;
    /* Over all generations: of the shard that had this number. */
    uint64_t reconnects, failovers;
    const struct buckets *round_trip_us; /* of calls, from being sent to the reply */
    int64_t last_round_trip_us;          /* 0: there was none yet */
    uint64_t waiting;                    /* calls without a reply */
    int64_t adjust_ms; /* what the shard's clock is put ahead of its master's wall clock */
};
uint32_t redis_shards(const struct redis *redis);
void redis_shard_figures(const struct redis *redis, uint32_t shard, struct redis_shard_view *out);

/* ---- a test clock: on the reactor's thread ---- */

/* As the first shard's stands; NULL: an ordinary one. Until redis_free; any thread may read it. */
struct clock *redis_test_clock(struct redis *redis);
/* Puts the clock of all shards to there, -1: leaves it; then waits until nothing is under way and nothing more is due
 * by it. `next_ms`: when something will be, INT64_MAX: never; `happened`: rises with each such moment that was
 * passed. Not `is_good`: a shard did not answer in time. Never inside the call; one at a time. */
typedef void redis_settled(void *ctx, bool is_good, int64_t next_ms, uint64_t happened);
void redis_settle(struct redis *redis, int64_t to_ms, redis_settled *settled, void *ctx);
/* `active` is called inside each call of the queue that does more than look. Before the reactor runs. */
void redis_on_active(struct redis *redis, void (*active)(void *ctx), void *ctx);

/* No call under way and nothing due: for tests that move the clock. */
bool redis_is_quiet(const struct redis *redis);

#endif
