/*
 * session_state: the state of a session (session.h), for its two files: session.c, and
 * session_greet.c below it.
 */
#ifndef TARRY_REDIS_SESSION_STATE_H
#define TARRY_REDIS_SESSION_STATE_H

#include "base/clock.h"
#include "base/log.h"
#include "redis/command.h"
#include "redis/session.h"
#include "redis/subscription.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum session_state {
    SESSION_PAUSING = 1, /* until resume_ms, then SEEKING */
    SESSION_SEEKING,
    SESSION_CONNECTING,
    SESSION_GREETING,
    SESSION_UP
};

enum {
    SESSION_CONNECT_MS = 2000,
    /* If Redis owes a reply and sends nothing for this long, the connection is considered dead.
     * Longer than the 5 s after which Redis answers BUSY while a script blocks it. */
    SESSION_SILENCE_MS = 6000,
    SESSION_PAUSE_FIRST_MS = 10,
    SESSION_PAUSE_MAX_MS = 1000,
    /* A session that was up for this long, or had a call answered, starts again with short
     * pauses. */
    SESSION_STEADY_MS = 1000,
    SESSION_READS_MAX = 64,     /* read-only calls with Redis */
    SESSION_EXPECTED_MAX = 256, /* replies that Redis owes */
    SESSION_TICKET_BYTES = 21,
    SESSION_WINDOW_BYTES = 12, /* earliest and latest time, 48 bits each */
    SESSION_CORE_BYTES = 8,    /* the end of the core's lease key, which names its creation */
    SESSION_WHY_BYTES = 200,
    SESSION_RUN_ID_BYTES = 41,
    SESSION_MARK_BYTES = 8
};

/* The reason for a greeting, which determines its steps. */
enum session_greeting_kind {
    SESSION_GREET_NEW = 1, /* the connection is new */
    SESSION_GREET_AGAIN,   /* the library is missing, or all data */
    SESSION_GREET_CLOCK    /* the clock does not run as expected */
};

enum session_expects {
    SESSION_EXPECTS_CALL = 1,
    SESSION_EXPECTS_WAIT,
    SESSION_EXPECTS_AUTH,
    SESSION_EXPECTS_SELECT,
    SESSION_EXPECTS_NAME,
    SESSION_EXPECTS_SHARDS,
    SESSION_EXPECTS_CONFIG,
    SESSION_EXPECTS_ROOM,
    SESSION_EXPECTS_LIBRARY,
    SESSION_EXPECTS_INFO,
    SESSION_EXPECTS_ROLE,
    SESSION_EXPECTS_LOAD,
    SESSION_EXPECTS_HELLO,
    SESSION_EXPECTS_ADJUST
};

struct session_expected {
    enum session_expects what;
    struct redis_call *call; /* NULL: the call was given up, or the reply is not for a call */
};

struct redis_session {
    struct redis_session_options options;
    char core[REDIS_TAG_BYTES + sizeof ":core"]; /* the key passed to scripts */
    enum session_state state;
    bool stopping;
    struct redis_endpoint endpoint;
    struct redis_connection *connection;
    struct redis_subscription notifications; /* connected to the same server */
    struct redis_topology_asker asker;
    struct peer_clock clock;

    struct deadline *deadline;
    int64_t wake_ms;     /* latest time for which the deadline is set */
    int64_t received_ms; /* time of the last bytes from Redis, or when it first owed a reply */
    size_t unsent;       /* bytes that waited for the socket at the last check */
    int64_t resume_ms;   /* PAUSING */
    int64_t pause_ms;    /* length of the next pause */
    int64_t up_ms;       /* since when the session is up */
    bool fresh;          /* the topology's information was found wrong */

    /* Replies that Redis owes on this connection, oldest first: a ring. */
    struct session_expected expected[SESSION_EXPECTED_MAX];
    uint32_t expected_first, expected_count;

    /* Calls. `flying`: sent at least once, in the order in which they were first sent. */
    struct list flying, changes_waiting, reads_waiting;
    size_t calls, flying_count, under_way;
    uint32_t reads_flying;
    bool slot_taken[REDIS_SESSION_SLOTS];
    uint64_t number; /* of the last ticket */
    int64_t stop_ms; /* when all calls end; INT64_MAX: not stopping */

    /* Greeting */
    bool has_library;
    struct redis_master master;
    int64_t asked_us;  /* when hello was sent */
    uint32_t adjusted; /* number of adjustments in this greeting */
    uint32_t unsure;   /* hellos in this greeting that took too long to set the clock by */
    bool is_behind;    /* the clock is behind: a script refused a call because of it */
    int64_t logged_clock_ms;
    char run_id[SESSION_RUN_ID_BYTES], found_run_id[SESSION_RUN_ID_BYTES];
    char greeted_replication_id
        [SESSION_RUN_ID_BYTES]; /* of the master's data, when hello was sent */

    struct mac_key lease_key; /* as returned by the last hello */
    bool has_lease_key;
    char mark[SESSION_MARK_BYTES]; /* of the shard's messages, as returned by the last hello */

    bool was_up;
    bool logged_gone;                     /* the loss of the queue was logged */
    bool was_moved;                       /* redirected by MOVED since it was up */
    char last_warning[SESSION_WHY_BYTES]; /* the last warning logged */
    char logged_call[SESSION_WHY_BYTES];  /* the last warning logged about a call, and when */
    int64_t logged_call_ms;
    char logged_notifications[128]; /* the last warning logged about notifications */
};

/* Makes sure that the deadline fires by `at_ms`. A deadline that moves later is left as it is: it
 * fires, finds nothing to do and is set again. This way the many calls that end in time need no
 * timer changes. */
static inline void session_wake_by(struct redis_session *session, int64_t at_ms)
{
    if (at_ms >= session->wake_ms)
        return;
    session->wake_ms = at_ms;
    deadline_set(session->deadline, at_ms);
}

/* Writes the name of the core that the session knows. */
static inline void session_name_core(const struct redis_session *session, char *out)
{
    const char *key = (const char *)&session->lease_key;
    memcpy(out, key + sizeof session->lease_key - SESSION_CORE_BYTES, SESSION_CORE_BYTES);
}

/* Notes that the shard's held clock was moved to this time. */
static inline void session_hold_clock(struct redis_session *session, int64_t at_ms)
{
    peer_clock_hold(&session->clock, at_ms);
    if (session->options.held)
        session->options.held(session->options.ctx, at_ms);
}

/* Returns the buffer for the next command and records that Redis owes its reply. */
static inline struct buffer *session_command(struct redis_session *session,
                                             enum session_expects what, struct redis_call *call)
{
    assert(session->expected_count < SESSION_EXPECTED_MAX);
    if (session->expected_count == 0)
        session->received_ms = clock_inner_ms();
    uint32_t last = (session->expected_first + session->expected_count++) % SESSION_EXPECTED_MAX;
    session->expected[last] = (struct session_expected){what, call};
    return redis_connection_out(session->connection);
}

/* Begins an FCALL, up to its key; `argc` arguments must follow. */
static inline void session_script(const struct redis_session *session, struct buffer *out,
                                  enum redis_script script, size_t argc)
{
    redis_command_begin(out, 4 + argc);
    redis_command_text(out, "FCALL");
    redis_command_text(out, redis_function(script));
    redis_command_text(out, "1");
    redis_command_text(out, session->core);
}

/* ---- session_greet.c ---- */

/* The action that a session has to take after a reply to its greeting. */
struct session_greeting {
    /* 0: no action; otherwise the connection is closed as after this error. */
    enum redis_decision decision;
    const char *why;
    bool is_up;   /* the greeting has succeeded: calls may be sent */
    bool is_gone; /* the shard's core was missing though it had existed */
};

/* Begins a greeting. */
void session_greet(struct redis_session *session, enum session_greeting_kind kind);
struct session_greeting session_greeting_reply(struct redis_session *session,
                                               enum session_expects what, const redisReply *reply);

#endif
