/*
 * session: the connection of one shard to its master. It finds the master, connects, greets,
 * carries script calls, and determines the outcome of calls that were in progress when a connection
 * ended.
 *
 * States: SEEKING (looks up the master) -> CONNECTING -> GREETING (AUTH, SELECT, load the library,
 * read role and run id, the hello script, compare clocks) -> UP -> back to SEEKING when the
 * connection ends or Redis replies MOVED, READONLY, LOADING, CLUSTERDOWN, MASTERDOWN, TRYAGAIN or
 * that the slot is moving (after a pause that grows from 10 ms to 1 s). A second connection, to the
 * same server, is subscribed to the shard's notifications.
 *
 * Calls. Each call ends in exactly one `done`, which never runs inside the call. A call that
 * changes something carries a ticket; at most REDIS_SESSION_SLOTS of these are in progress, the
 * others wait here in order. After a reconnect, every call without a reply is sent again with the
 * same ticket: the script detects whether it was already carried out and then returns the same
 * reply. If Redis lost the library, the library is loaded again and the call is repeated. A call
 * that cannot be sent within `timeout_ms` ends as REDIS_CALL_UNAVAILABLE; after
 * redis_session_stop, no call waits beyond the time given there.
 *
 * With wait_replicas, a WAIT follows each call that changes something, and its reply is held back
 * until that many replicas have confirmed it; if too few do so in time, the call ends as
 * REDIS_CALL_UNAVAILABLE.
 *
 * Runs on the reactor's thread only.
 */
#ifndef TARRY_REDIS_SESSION_H
#define TARRY_REDIS_SESSION_H

#include "base/list.h"
#include "base/mac.h"
#include "base/peer_clock.h"
#include "redis/answer.h"
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
    REDIS_CALL_NO_SPACE,    /* Redis rejects writes that need space: maxmemory, or a full disk */
    REDIS_CALL_UNAVAILABLE, /* unreachable for too long, or rejected permanently (logged) */
    REDIS_CALL_STOPPING
};

/* A script call. Embed it. From session_submit until `done` it belongs to the session. */
struct redis_call {
    struct list list; /* link for the session */
    enum redis_script script;
    bool changes;       /* the call has a ticket, inserted by the session as first argument */
    bool is_timed;      /* the call has no ticket, but the time window that ends a ticket */
    size_t argc;        /* arguments after KEYS[1] (and after the ticket or window) */
    struct buffer args; /* in the Redis protocol; freed by the owner after `done` */
    void (*done)(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                 const redisReply *reply);
    /* private to the session */
    int64_t give_up_ms, sent_us;
    uint64_t ticket;
    uint32_t slot;
    bool is_flying; /* sent at least once */
    bool is_sent;   /* sent on the current connection */
    void *kept;     /* the reply, until enough replicas have confirmed */
};

/* The counters of one shard's session. */
struct redis_tally {
    struct buckets round_trip_us; /* bounds: redis_call_bounds */
    int64_t last_round_trip_us;
    uint64_t reconnects, failovers;
};

struct redis_session_options {
    struct reactor *reactor;
    struct redis_topology *topology;
    const struct redis_url *url;
    char tag[REDIS_TAG_BYTES];
    char server[9]; /* 8 random hex digits that name this server in tickets and messages */
    char *name;     /* the queue's (REDIS_NAME_BYTES), from hello; NULL: not the first shard */
    uint32_t place; /* of the shard in its generation */
    uint32_t shards, generation; /* number of shards, and their generation */
    uint32_t wait_replicas;
    enum redis_durability require_durability; /* the session takes no calls with less */
    int64_t timeout_ms;
    /* The session increments calls, resent, reconnects, redirects, failovers (another process
     * became master), clock_disagreements and data_losses. */
    struct redis_figures *figures;
    struct redis_tally *tally; /* of the shard; may be NULL */
    struct buckets *script_us; /* call durations by script; may be NULL */
    /* Receives a notification about the shard, sent by another server or caused by a call from here
     * (scripts/README.md, "Messages"). Never runs inside a call. */
    void (*message)(void *ctx, struct slice message);
    /* Called with true each time the session comes up, and each time notifications may have been
     * missed while it was up; with false when it goes down. Calls can be submitted at any time. */
    void (*changed)(void *ctx, bool up);
    int64_t test_clock_ms; /* where a new shard's clock is held, for tests; 0: an ordinary clock */
    /* Reports the time at which the clock is held, if it is held. */
    void (*held)(void *ctx, int64_t at_ms);
    /* Reports the settings of the master, at each greeting and each redis_session_look. */
    void (*learned)(void *ctx, const struct redis_master *master);
    void *ctx;
};

struct redis_session *redis_session_new(
    const struct redis_session_options *options); /* Returns NULL if memory runs out. */
/* Frees the session. Calls that have not ended yet end as REDIS_CALL_STOPPING, inside this call.
 * Not from a callback of the session; submit nothing afterwards. */
void redis_session_free(struct redis_session *session);

void redis_session_submit(struct redis_session *session, struct redis_call *call);
/* Sets a time limit for all calls: from `until_ms` (inner clock) on no call waits, whatever its
 * timeout, but ends as REDIS_CALL_UNAVAILABLE. This includes calls submitted later. */
void redis_session_stop(struct redis_session *session, int64_t until_ms);

/* Checks whether the master has room and how it acts without room, and reports this to `learned`.
 * Also checks whether the master still has the same data, and greets again if it does not. */
void redis_session_look(struct redis_session *session);
bool redis_session_is_up(const struct redis_session *session);
/* Returns the number of calls that have not ended; the second function, how many of these are with
 * Redis. */
size_t redis_session_calls(const struct redis_session *session);
size_t redis_session_under_way(const struct redis_session *session);
/* Returns the key under which the shard's leases are checked, the same for all servers. NULL:
 * unknown, because the session has not been up yet. */
const struct mac_key *redis_session_lease_key(const struct redis_session *session);
const struct peer_clock *redis_session_clock(const struct redis_session *session);
/* Notes that the held clock was moved to this time. */
void redis_session_hold_clock(struct redis_session *session, int64_t at_ms);
/* Returns the endpoint of the master, as last found; an empty host: not found yet. */
const struct redis_endpoint *redis_session_endpoint(const struct redis_session *session);

#endif
