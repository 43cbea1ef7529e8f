/* session_private: what the files of the session share. See session.h. */
#ifndef TARRY_REDIS_SESSION_PRIVATE_H
#define TARRY_REDIS_SESSION_PRIVATE_H

#include "base/log.h"
#include "redis/command.h"
#include "redis/session.h"
#include "redis/session_news.h"

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
    SESSION_STEADY_MS =
        1000,               /* up for so long, or with a call answered: pauses begin small again */
    SESSION_READS_MAX = 64, /* calls that change nothing and are with Redis */
    SESSION_EXPECTED_MAX = 256, /* replies that Redis owes */
    SESSION_TICKET_BYTES = 21,
    SESSION_WINDOW_BYTES = 12, /* earliest, latest: 48 bits each */
    SESSION_WHY_BYTES = 200,
    SESSION_RUN_ID_BYTES = 41
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
    SESSION_EXPECTS_ADJUST
};

struct session_expected {
    enum session_expects what;
    struct redis_call *call; /* NULL: it was given up, or is not a call's */
};

struct redis_session {
    struct redis_session_options options;
    uint16_t slot;
    enum session_state state;
    bool stopping;
    struct redis_endpoint endpoint;
    struct redis_connection *connection;
    struct session_news news;
    struct redis_topology_listener listener;
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
    char run_id[SESSION_RUN_ID_BYTES], found_run_id[SESSION_RUN_ID_BYTES];

    struct mac_key lease_key; /* as the last hello said */
    bool has_lease_key;

    bool was_up;
    bool said_gone;                    /* that the queue is gone, since it was up */
    bool was_moved;                    /* by a MOVED, since it was up */
    char said[SESSION_WHY_BYTES];      /* the last complaint in the log */
    char said_call[SESSION_WHY_BYTES]; /* the last complaint about a call, and when */
    int64_t said_call_ms;
};

/* ---- session.c: states, time ---- */

/* The connection is no good (any more): begin again after a pause. `fresh`: and ask where. */
void session_lost(struct redis_session *session, const char *why, bool fresh);
/* The same where trying soon is of no use: refused for good, or until somebody mends it. */
void session_refused(struct redis_session *session, const char *why);
/* A MOVED: begin again there. */
void session_moved(struct redis_session *session, const char *error);
/* What is known of the connection holds, but calls must wait for another greeting. */
void session_greet_again(struct redis_session *session, enum session_greeting_kind kind);
void session_up(struct redis_session *session);
void session_wake_by(struct redis_session *session, int64_t at_ms);
void session_news_subscribed(struct redis_session *session);

/* The buffer for the next command, whose reply is noted to be owed. */
struct buffer *session_command(struct redis_session *session, enum session_expects what,
                               struct redis_call *call);
/* FCALL up to its key; `argc` arguments must follow. */
void session_script(struct redis_session *session, struct buffer *out, enum redis_script script,
                    size_t argc);
/* False: not an answer of our scripts. */
bool session_read_head(const redisReply *reply, struct redis_head *out);

/* ---- session_greet.c ---- */

void session_greet(struct redis_session *session, enum session_greeting_kind kind);
void session_greeting_reply(struct redis_session *session, enum session_expects what,
                            const redisReply *reply);
/* The shard's core is not there, though it was: says so, once. */
void session_say_gone(struct redis_session *session);

/* ---- session_calls.c ---- */

/* Sends what may be sent. */
void session_calls_send(struct redis_session *session);
/* `call` NULL: nobody waits for it. */
void session_call_reply(struct redis_session *session, struct redis_call *call,
                        const redisReply *reply);
void session_wait_reply(struct redis_session *session, struct redis_call *call,
                        const redisReply *reply);
/* The connection ended: what was under way will be sent again. */
void session_calls_unsent(struct redis_session *session);
/* Ends those whose patience is over; when the next one's is, or INT64_MAX. */
int64_t session_calls_expire(struct redis_session *session, int64_t now_ms);
void session_calls_end_all(struct redis_session *session, enum redis_call_end end);

/* ---- session_error.c: what an error reply means. Pure. ---- */

enum session_verdict {
    SESSION_VERDICT_GREET = 1, /* the library is gone */
    SESSION_VERDICT_CLOCK,     /* the clock is behind */
    SESSION_VERDICT_GONE,      /* Redis lost its data: hello makes the queue anew */
    SESSION_VERDICT_AGAIN,     /* here, after a pause */
    SESSION_VERDICT_MOVED,     /* the endpoint says where; then it is AGAIN */
    SESSION_VERDICT_ELSEWHERE, /* ask where, after a pause */
    SESSION_VERDICT_NO_SPACE,  /* nothing was changed */
    SESSION_VERDICT_REFUSED    /* for good: the call cannot be carried out */
};

enum session_verdict session_judge(const char *error);
/* "MOVED 3999 127.0.0.1:6381"; no host: that of `asked`. False: it makes no sense. */
bool session_read_moved(const char *error, const struct redis_endpoint *asked,
                        struct redis_endpoint *out);

/* ---- session_reply.c: a reply that outlives its callback ---- */

redisReply *session_reply_copy(const redisReply *reply); /* NULL: out of memory */
void session_reply_free(redisReply *reply);

#endif
