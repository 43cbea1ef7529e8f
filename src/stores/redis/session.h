/*
 * session: one shard's way to its master: finds it, connects, says hello, carries calls, and settles
 * what became of those that were under way when a connection ended.
 *
 * States: SEEKING (asks where) -> CONNECTING -> GREETING (AUTH, SELECT, library loaded, role and
 * run id read, the hello script, clocks compared) -> UP -> back to SEEKING when the connection ends
 * or says MOVED, READONLY, LOADING, CLUSTERDOWN, MASTERDOWN, TRYAGAIN or that the slot is moving
 * (with a pause that grows from 10 ms to 1 s). A second connection, to the same server, is
 * subscribed to the shard's news.
 *
 * Calls. Each ends in exactly one `done`, never inside the call. A call that changes something
 * carries a ticket; at most REDIS_SESSION_SLOTS of those are under way, the rest wait here in order.
 * After a reconnect whatever has no reply is sent again with the same ticket: the script tells
 * whether it had been carried out and gives the answer it gave then. Where Redis
 * forgot the library it is loaded again and the call is repeated. A call that found no way within
 * `patience_ms` ends as REDIS_CALL_UNAVAILABLE; after redis_session_stop none waits longer than it
 * said.
 *
 * With wait_replicas, a WAIT follows each call that changes something, and its answer is held until
 * that many replicas have it; too few in time: REDIS_CALL_UNAVAILABLE.
 *
 * One thread, the reactor's.
 */
#ifndef TARRY_REDIS_SESSION_H
#define TARRY_REDIS_SESSION_H

#include "base/list.h"
#include "base/mac.h"
#include "redis/answer.h"
#include "redis/clock.h"
#include "redis/generation.h"
#include "redis/master.h"
#include "redis/redis.h"
#include "redis/script.h"
#include "redis/slot.h"
#include "redis/topology.h"

enum { REDIS_SESSION_SLOTS = 4 };

struct redis_session;

enum redis_call_end {
    REDIS_CALL_OK = 1,      /* `reply` is the script's array; its head has been checked */
    REDIS_CALL_NO_SPACE,    /* Redis refuses to grow: maxmemory, or its disk is full */
    REDIS_CALL_UNAVAILABLE, /* out of reach for too long, or refused for good (said in the log) */
    REDIS_CALL_STOPPING
};

/* Embed it. From session_submit until `done` it belongs to the session. */
struct redis_call {
    struct list list; /* the session's */
    enum redis_script script;
    bool changes;       /* it has a ticket as its first argument, put there by the session */
    bool is_timed;      /* it has no ticket, but the window of time that ends one */
    size_t argc;        /* arguments after KEYS[1] (and after the ticket or window) */
    struct buffer args; /* in Redis' protocol; freed by the owner after `done` */
    void (*done)(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                 const redisReply *reply);
    /* the session's own */
    int64_t give_up_ms, sent_us;
    uint64_t ticket;
    uint32_t slot;
    bool is_flying; /* was sent at least once */
    bool is_sent;   /* on the present connection */
    void *kept;     /* its answer, until enough replicas have it */
};

/* What a session counts for its shard alone. */
struct redis_tally {
    struct buckets round_trip_us; /* redis_call_bounds */
    int64_t last_round_trip_us;
    uint64_t reconnects, failovers;
};

struct redis_session_options {
    struct reactor *reactor;
    struct redis_topology *topology;
    const struct redis_url *url;
    char tag[REDIS_TAG_BYTES];
    char server[9]; /* 8 hex digits drawn at the start, names this server in tickets and news */
    char *name; /* the queue's (REDIS_NAME_BYTES), as hello finds it; NULL: not the first shard */
    uint32_t shards, generation; /* how many there are, of which generation */
    uint32_t wait_replicas;
    enum redis_durability require_durability; /* on less it takes no calls */
    int64_t patience_ms;
    /* The session counts up calls, resent, reconnects, redirects, failovers (another process is
     * master), clock_disagreements and losses. */
    struct redis_figures *figures;
    struct redis_tally *tally; /* the shard's; or NULL */
    struct buckets *script_us; /* by script, how long its calls took; or NULL */
    /* What another server, or a call from here, tells of the shard (scripts/README.md, "News"). Not
     * inside a call. */
    void (*message)(void *ctx, struct slice message);
    /* True each time it comes up and each time news may have been missed while it was up; false
     * when it goes down. Calls can be submitted all the time. */
    void (*turned)(void *ctx, bool up);
    int64_t test_clock_ms; /* where a new shard's clock is to stand, for tests; 0: it goes */
    /* Its clock stands there, where it does. */
    void (*held)(void *ctx, int64_t at_ms);
    /* What is in force on the master, at each greeting and each redis_session_look. */
    void (*learned)(void *ctx, const struct redis_master *master);
    void *ctx;
};

struct redis_session *redis_session_new(
    const struct redis_session_options *options); /* NULL: no memory */
/* What has not ended yet ends as REDIS_CALL_STOPPING, inside this call. Not from a callback of the
 * session; nothing may be submitted from then on. */
void redis_session_free(struct redis_session *session);

void redis_session_submit(struct redis_session *session, struct redis_call *call);
/* From `until_ms` (inner clock) on no call waits any more, whatever the patience: it ends as
 * REDIS_CALL_UNAVAILABLE. What is submitted after this, too. */
void redis_session_stop(struct redis_session *session, int64_t until_ms);

/* Asks whether the master has room, and what it does where it has none: `learned`; and whether its
 * data are those it had: else it is greeted again. */
void redis_session_look(struct redis_session *session);
bool redis_session_is_up(const struct redis_session *session);
/* Calls that have not ended; and those of them that are with Redis. */
size_t redis_session_calls(const struct redis_session *session);
size_t redis_session_under_way(const struct redis_session *session);
/* Under which the shard's leases are checked, the same for all servers. NULL: it has not been up
 * yet, so nobody knows. */
const struct mac_key *redis_session_lease_key(const struct redis_session *session);
const struct redis_clock *redis_session_clock(const struct redis_session *session);
/* Somebody has put the clock, which stands, to there. */
void redis_session_hold_clock(struct redis_session *session, int64_t at_ms);
/* Where its master is, as last found; an empty host: it has not been found yet. */
const struct redis_endpoint *redis_session_endpoint(const struct redis_session *session);

#endif
