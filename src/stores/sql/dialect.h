/*
 * dialect: what a kind of database must do for this room: it is reached, it carries out turns.
 *
 * A link is one connection. A turn is one transaction on it, in two parts: all calls, then the
 * commit; the session decides which part is next, the dialect with which statements and in how many
 * round trips. A part ends with SQL_PART_OVER and `fault`; at anything but SQL_FAULT_NONE a rollback
 * comes next, or the link is closed. Answers are read into the calls and `effects` of the context
 * while the first part runs; they are given after the commit.
 *
 * Everything on the reactor's thread, but `greet`, `migrate`, `schema` and `place`, which are called
 * from any.
 */
#ifndef TARRY_SQL_DIALECT_H
#define TARRY_SQL_DIALECT_H

#include "base/list.h"
#include "base/mac.h"
#include "base/slice.h"
#include "sql/effect.h"
#include "sql/tokens.h"
#include "sql/topic.h"

enum {
    SQL_NAME_BYTES = 33,
    SQL_SYNC_BYTES = 64,
    SQL_GREETING_ERROR_BYTES = 400,
    SQL_STATE_BYTES = 6,
    SQL_MESSAGE_BYTES = 200
};

struct sql_dialect;

enum sql_fault_kind {
    SQL_FAULT_NONE = 0,
    SQL_FAULT_PASSING, /* a deadlock, a lock that others hold: another try may well do */
    SQL_FAULT_GONE, /* the connection is of no use any more, or leads to a server that only reads */
    SQL_FAULT_NO_SPACE,
    SQL_FAULT_NO_MEMORY,
    SQL_FAULT_OTHER
};

struct sql_fault { /* the first one of a turn */
    enum sql_fault_kind kind;
    char state[SQL_STATE_BYTES]; /* SQLSTATE */
    char message[SQL_MESSAGE_BYTES];
};

/* A dialect's own structure begins with it. */
struct sql_link {
    const struct sql_dialect *dialect;
    struct sql_fault fault;
    bool is_committed; /* the turn is, with its first part */
};

/* What calls of one server have in common. */
struct sql_context {
    struct sql_link *link;
    struct mac_key key;
    int64_t server;
    uint32_t topics_max;
    int64_t now_ms; /* the database's, as of the last answer; steps of one turn differ by little */
    int64_t now_seen_us; /* by the inner clock, when that came; 0: with the end of the first part */
    bool by_sql;         /* a job was seen that a user's transaction pushed */
    struct sql_topics topics;
    struct sql_topic_plan plan;
    struct sql_effects effects;
};

struct sql_turn {
    struct list
        *calls;      /* struct sql_call, to be carried out in their order where they name one job */
    int64_t ticket;  /* to be set where the one before is there, first of all; 0: nothing changes */
    bool is_durable; /* the commit waits for the disk */
    bool is_brief;   /* a lock is waited for a moment only */
    bool is_alone;   /* no other server is to be told what happened */
    bool is_heard;   /* events go by way of the database: somebody listens at another server, or
                        here to those of all */
    bool is_single;  /* it changes nothing that matters twice: the first part is all of it */
    /* It is pushes alone, and nobody is to be told of them: it may be committed with the first part, in
     * which link.is_committed says so. Only where each of them created a job, at the ticket's time, is it:
     * so the ticket tells all answers. */
    bool is_whole;
};

enum sql_progress {
    SQL_UNDER_WAY = 1,
    SQL_PART_OVER, /* `fault` tells how */
    SQL_LOST       /* the connection broke; `fault.message` may say why */
};

/* What to wait for. */
enum { SQL_READABLE = 1, SQL_WRITABLE = 2 };

/* A new connection, from the URL to the point where a session may send its first turn. */
struct sql_wish {
    const char *url;
    int64_t server; /* its number so far; 0: it gets one */
    bool migrate;
    bool knows_time;   /* as of the connection before: */
    int64_t offset_us; /* the database's clock less the inner one, rather less than it was */
};

struct sql_greeting {
    struct sql_link *link;
    int64_t server;
    int64_t ticket;    /* the last number that this server's transactions were committed under */
    int64_t ticket_ms; /* when, by the database's clock; 0: that is not told */
    int64_t now_ms;    /* the database's clock */
    int64_t moved_ms;  /* another machine's clock was put right by so much */
    struct mac_key key;
    char name[SQL_NAME_BYTES];
    char sync[SQL_SYNC_BYTES]; /* the settings that durability hangs on, for people */
    bool is_durable;
    char error[SQL_GREETING_ERROR_BYTES];
};

struct sql_finding {
    char text[400];
    uint64_t jobs;
    bool mended;
};
VECTOR_DECLARE(sql_findings, struct sql_finding)

struct sql_dialect {
    const char *name;             /* as /v1/info and metrics say it: "postgres" */
    const char *title;            /* for people: "PostgreSQL" */
    const char *const *schemes;   /* of its URLs, NULL at the end */
    const char *durable, *frail;  /* what an answered push survives, in words */
    const char *durable_settings; /* what to do for the first */
    bool
        has_single_turns; /* what only reads, and upkeep, needs no commit: see sql_turn.is_single */
    bool has_whole_turns; /* see sql_turn.is_whole */
    /* Where others' pushes are not told: how often sessions look for them while somebody waits, and
     * how often for a second after one by SQL was seen. 0: they are told. */
    int64_t look_ms, look_soon_ms;
    int64_t silence_ms; /* no answer for so long: the connection is given up */
    const struct sql_tokens_ops *tokens;

    /* Blocking. False: `error` says why, and there is no link. */
    bool (*greet)(const struct sql_wish *wish, struct sql_greeting *out);
    bool (*migrate)(const char *url, char *error, size_t error_bytes);
    /* What is wrong in it. `mend`: what can be mended without any loss is. */
    bool (*fsck)(const char *url, bool mend, struct sql_findings *out, char *error,
                 size_t error_bytes);
    /* All of the schema, as SQL, for who runs it by hand. */
    struct slice (*schema)(void);
    /* The URL without its password and parameters, for people. */
    void (*place)(const char *url, char *out, size_t out_bytes);

    void (*close)(struct sql_link *link);
    int (*socket)(const struct sql_link *link);
    /* SQL_READABLE, SQL_WRITABLE: what it waits for. */
    int (*wants)(const struct sql_link *link);
    /* Each begins a part. False: out of memory, or the connection is gone. */
    bool (*send_calls)(struct sql_link *link, struct sql_context *context,
                       const struct sql_turn *turn);
    bool (*send_commit)(struct sql_link *link, struct sql_context *context,
                        const struct sql_turn *turn);
    bool (*send_rollback)(struct sql_link *link);
    /* The socket is ready for `events`. */
    enum sql_progress (*advance)(struct sql_link *link, struct sql_context *context, int events);
    /* Where a commit need not wait for the disk: on a connection beside, all is made durable that was
     * committed before. An error is the connection's end. NULL, all three, or a socket of -1: each commit waits. */
    int (*flush_socket)(const struct sql_link *link);
    bool (*send_flush)(struct sql_link *link);
    enum sql_progress (*advance_flush)(struct sql_link *link);
    /* Between turns: what other servers told. False: no more. */
    bool (*next_news)(struct sql_link *link, struct sql_news *out);
};

/* Of the URL's scheme. NULL: unknown. */
const struct sql_dialect *sql_dialect_of(const char *url);
/* All of them, NULL at the end. */
extern const struct sql_dialect *const sql_dialects[];

#endif
