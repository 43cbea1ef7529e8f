/* link_private: what the files of the link share. See link.h. */
#ifndef TARRY_REDIS_LINK_PRIVATE_H
#define TARRY_REDIS_LINK_PRIVATE_H

#include "base/log.h"
#include "redis/command.h"
#include "redis/link.h"
#include "redis/link_news.h"

enum link_state {
    LINK_PAUSING = 1, /* until resume_ms, then it seeks */
    LINK_SEEKING,
    LINK_CONNECTING,
    LINK_GREETING,
    LINK_UP
};

enum {
    LINK_CONNECT_MS = 2000,
    /* Redis owes a reply and sends nothing for so long: taken for dead. Longer than the 5 s after
     * which Redis answers BUSY while a script holds it up. */
    LINK_SILENCE_MS = 6000,
    LINK_PAUSE_FIRST_MS = 10,
    LINK_PAUSE_MAX_MS = 1000,
    LINK_STEADY_MS = 1000,   /* up for so long, or with a call answered: pauses begin small again */
    LINK_READS_MAX = 64,     /* calls that change nothing and are with Redis */
    LINK_EXPECTED_MAX = 256, /* replies that Redis owes */
    LINK_TICKET_BYTES = 21,
    LINK_WINDOW_BYTES = 12, /* earliest, latest: 48 bits each */
    LINK_WHY_BYTES = 200,
    LINK_RUN_ID_BYTES = 41
};

/* Why a greeting is made: what it has to do. */
enum link_greeting_kind {
    LINK_GREET_NEW = 1, /* the connection is new */
    LINK_GREET_AGAIN,   /* the library is gone, or all is */
    LINK_GREET_CLOCK    /* the clock is not as it ran */
};

enum link_expects {
    LINK_EXPECTS_CALL = 1,
    LINK_EXPECTS_WAIT,
    LINK_EXPECTS_AUTH,
    LINK_EXPECTS_SELECT,
    LINK_EXPECTS_NAME,
    LINK_EXPECTS_SHARDS,
    LINK_EXPECTS_CONFIG,
    LINK_EXPECTS_ROOM,
    LINK_EXPECTS_LIBRARY,
    LINK_EXPECTS_INFO,
    LINK_EXPECTS_ROLE,
    LINK_EXPECTS_LOAD,
    LINK_EXPECTS_HELLO,
    LINK_EXPECTS_ADJUST
};

struct link_expected {
    enum link_expects what;
    struct redis_call *call; /* NULL: it was given up, or is not a call's */
};

struct redis_link {
    struct redis_link_options options;
    uint16_t slot;
    enum link_state state;
    bool stopping;
    struct redis_endpoint endpoint;
    struct redis_connection *connection;
    struct link_news news;
    struct redis_where_listener listener;
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
    struct link_expected expected[LINK_EXPECTED_MAX];
    uint32_t expected_first, expected_count;

    /* Calls. In flight: sent at least once, in the order they were first sent. */
    struct list flying, changes_waiting, reads_waiting;
    size_t calls, flying_count, under_way;
    uint32_t reads_flying;
    bool slot_taken[REDIS_LINK_SLOTS];
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
    char run_id[LINK_RUN_ID_BYTES], found_run_id[LINK_RUN_ID_BYTES];

    struct mac_key lease_key; /* as the last hello said */
    bool has_lease_key;

    bool was_up;
    bool said_gone;                 /* that the queue is gone, since it was up */
    bool was_moved;                 /* by a MOVED, since it was up */
    char said[LINK_WHY_BYTES];      /* the last complaint in the log */
    char said_call[LINK_WHY_BYTES]; /* the last complaint about a call, and when */
    int64_t said_call_ms;
};

/* ---- link.c: states, time ---- */

/* The connection is no good (any more): begin again after a pause. `fresh`: and ask where. */
void link_lost(struct redis_link *link, const char *why, bool fresh);
/* The same where trying soon is of no use: refused for good, or until somebody mends it. */
void link_refused(struct redis_link *link, const char *why);
/* A MOVED: begin again there. */
void link_moved(struct redis_link *link, const char *error);
/* What is known of the connection holds, but calls must wait for another greeting. */
void link_greet_again(struct redis_link *link, enum link_greeting_kind kind);
void link_up(struct redis_link *link);
void link_wake_by(struct redis_link *link, int64_t at_ms);
void link_news_subscribed(struct redis_link *link);

/* The buffer for the next command, whose reply is noted to be owed. */
struct buffer *link_command(struct redis_link *link, enum link_expects what,
                            struct redis_call *call);
/* FCALL up to its key; `argc` arguments must follow. */
void link_script(struct redis_link *link, struct buffer *out, enum redis_script script,
                 size_t argc);
/* False: not an answer of our scripts. */
bool link_read_head(const redisReply *reply, struct redis_head *out);

/* ---- link_greet.c ---- */

void link_greet(struct redis_link *link, enum link_greeting_kind kind);
void link_greeting_reply(struct redis_link *link, enum link_expects what, const redisReply *reply);
/* The shard's core is not there, though it was: says so, once. */
void link_say_gone(struct redis_link *link);

/* ---- link_calls.c ---- */

/* Sends what may be sent. */
void link_calls_send(struct redis_link *link);
/* `call` NULL: nobody waits for it. */
void link_call_reply(struct redis_link *link, struct redis_call *call, const redisReply *reply);
void link_wait_reply(struct redis_link *link, struct redis_call *call, const redisReply *reply);
/* The connection ended: what was under way will be sent again. */
void link_calls_unsent(struct redis_link *link);
/* Ends those whose patience is over; when the next one's is, or INT64_MAX. */
int64_t link_calls_expire(struct redis_link *link, int64_t now_ms);
void link_calls_end_all(struct redis_link *link, enum redis_call_end end);

/* ---- link_error.c: what an error reply means. Pure. ---- */

enum link_verdict {
    LINK_VERDICT_GREET = 1, /* the library is gone */
    LINK_VERDICT_CLOCK,     /* the clock is behind */
    LINK_VERDICT_GONE,      /* Redis lost its data: hello makes the queue anew */
    LINK_VERDICT_AGAIN,     /* here, after a pause */
    LINK_VERDICT_MOVED,     /* the endpoint says where; then it is AGAIN */
    LINK_VERDICT_ELSEWHERE, /* ask where, after a pause */
    LINK_VERDICT_NO_SPACE,  /* nothing was changed */
    LINK_VERDICT_REFUSED    /* for good: the call cannot be carried out */
};

enum link_verdict link_judge(const char *error);
/* "MOVED 3999 127.0.0.1:6381"; no host: that of `asked`. False: it makes no sense. */
bool link_read_moved(const char *error, const struct redis_endpoint *asked,
                     struct redis_endpoint *out);

/* ---- link_reply.c: a reply that outlives its callback ---- */

redisReply *link_reply_copy(const redisReply *reply); /* NULL: out of memory */
void link_reply_free(redisReply *reply);

#endif
