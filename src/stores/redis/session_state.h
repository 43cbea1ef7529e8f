/*
 * session_state: what a session (session.h) consists of, for its two files: session.c, and
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

enum session_state {
    SESSION_PAUSING = 1, /* until resume_ms, then it seeks */
    SESSION_SEEKING,
    SESSION_CONNECTING,
    SESSION_GREETING,
    SESSION_UP
};

enum {
    SESSION_CONNECT_MS = 2000,
    /* Redis owes a reply and sends nothing for so long: taken for dead. Longer than the 5 s after
     * which Redis answers BUSY while a script holds it up. */
    SESSION_SILENCE_MS = 6000,
    SESSION_PAUSE_FIRST_MS = 10,
    SESSION_PAUSE_MAX_MS = 1000,
    /* A session that was up for so long, or had a call answered, begins with small pauses again. */
    SESSION_STEADY_MS = 1000,
    SESSION_READS_MAX = 64,     /* calls that change nothing and are with Redis */
    SESSION_EXPECTED_MAX = 256, /* replies that Redis owes */
    SESSION_TICKET_BYTES = 21,
    SESSION_WINDOW_BYTES = 12, /* earliest, latest: 48 bits each */
    SESSION_WHY_BYTES = 200,
    SESSION_RUN_ID_BYTES = 41,
    SESSION_MARK_BYTES = 8
};

/* Why a greeting is made: what it has to do. */
enum session_greeting_kind {
    SESSION_GREET_NEW = 1, /* the connection is new */
    SESSION_GREET_AGAIN,   /* the library is gone, or all is */
    SESSION_GREET_CLOCK    /* the clock is not as it ran */
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
    SESSION_EXPECTS_CONVERT,
    SESSION_EXPECTS_ADJUST
};

struct session_expected {
    enum session_expects what;
    struct redis_call *call; /* NULL: it was given up, or is not a call's */
};

struct redis_session {
    struct redis_session_options options;
    char core[REDIS_TAG_BYTES + sizeof ":core"]; /* the key that scripts are called with */
    enum session_state state;
    bool stopping;
    struct redis_endpoint endpoint;
    struct redis_connection *connection;
    struct redis_subscription news; /* to the same server */
    struct redis_topology_asker asker;
    struct redis_clock clock;

    struct deadline *deadline;
    int64_t wake_ms;   /* what it is set for, at the latest */
    int64_t heard_ms;  /* when Redis last said something, or first owed something */
    size_t unsent;     /* what waited for the socket when that was looked at */
    int64_t resume_ms; /* PAUSING */
    int64_t pause_ms;  /* the next pause */
    int64_t up_ms;     /* since when it is up */
    bool fresh;        /* what `where` knows was found wrong */

    /* Replies that Redis owes on this connection, oldest first: a ring. */
    struct session_expected expected[SESSION_EXPECTED_MAX];
    uint32_t expected_first, expected_count;

    /* Calls. In flight: sent at least once, in the order they were first sent. */
    struct list flying, changes_waiting, reads_waiting;
    size_t calls, flying_count, under_way;
    uint32_t reads_flying;
    bool slot_taken[REDIS_SESSION_SLOTS];
    uint64_t number; /* of the last ticket */
    int64_t stop_ms; /* when all of them end; INT64_MAX: no stop is under way */

    /* Greeting */
    bool has_library;
    struct redis_master master;
    int64_t asked_us;  /* when hello was sent */
    uint32_t adjusted; /* times in this greeting */
    uint32_t unsure;   /* hellos of it that took too long to set the clock by */
    bool is_behind;    /* the clock is: a script refused a call for that */
    int64_t said_clock_ms;
    uint64_t converted;      /* topics, of a shard of layout 1 */
    int64_t convert_said_ms; /* when the log last heard of it */
    char run_id[SESSION_RUN_ID_BYTES], found_run_id[SESSION_RUN_ID_BYTES];
    char greeted_history[SESSION_RUN_ID_BYTES]; /* of the master's data, when hello was said */

    struct mac_key lease_key; /* as the last hello said */
    bool has_lease_key;
    char mark[SESSION_MARK_BYTES]; /* of the shard's messages, as the last hello said */

    bool was_up;
    bool said_gone;                    /* that the queue is gone, since it was up */
    bool was_moved;                    /* by a MOVED, since it was up */
    char said[SESSION_WHY_BYTES];      /* the last complaint in the log */
    char said_call[SESSION_WHY_BYTES]; /* the last complaint about a call, and when */
    int64_t said_call_ms;
    char said_news[128]; /* the last complaint about news */
};

/* A deadline that moves later is left alone: it rings, finds nothing to do and is set again. So the
 * many calls that end in time cost no timer. */
static inline void session_wake_by(struct redis_session *session, int64_t at_ms)
{
    if (at_ms >= session->wake_ms)
        return;
    session->wake_ms = at_ms;
    deadline_set(session->deadline, at_ms);
}

/* The shard's clock, which stands still, was put to there. */
static inline void session_hold_clock(struct redis_session *session, int64_t at_ms)
{
    redis_clock_hold(&session->clock, at_ms);
    if (session->options.held)
        session->options.held(session->options.ctx, at_ms);
}

/* The buffer for the next command, whose reply is noted to be owed. */
static inline struct buffer *session_command(struct redis_session *session,
                                             enum session_expects what, struct redis_call *call)
{
    assert(session->expected_count < SESSION_EXPECTED_MAX);
    if (session->expected_count == 0)
        session->heard_ms = clock_inner_ms();
    uint32_t last = (session->expected_first + session->expected_count++) % SESSION_EXPECTED_MAX;
    session->expected[last] = (struct session_expected){what, call};
    return redis_connection_out(session->connection);
}

/* FCALL up to its key; `argc` arguments must follow. */
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

/* What the session has to do after a reply to its greeting. */
struct session_greeting {
    /* 0: nothing; else the connection is given up, as after that error. */
    enum redis_verdict verdict;
    const char *why;
    bool is_up;   /* all is well, calls may be sent */
    bool is_gone; /* the shard's core was not there, though it had been */
};

/* Begins a greeting. */
void session_greet(struct redis_session *session, enum session_greeting_kind kind);
struct session_greeting session_greeting_reply(struct redis_session *session,
                                               enum session_expects what, const redisReply *reply);

#endif
