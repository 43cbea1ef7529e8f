/*
 * dialect: the interface to a kind of database: connecting, and running transactions.
 *
 * A link is one connection. It runs one transaction at a time, in two parts: all calls, then the
 * commit. The session selects the next part; the dialect selects the statements and the number of
 * round trips. A part ends with SQL_PART_OVER and `fault`. After any fault other than
 * SQL_FAULT_NONE, the session sends a rollback or closes the link. The dialect reads results into
 * the calls and into `effects` of the context during the first part; the replies are sent after the
 * commit.
 *
 * All functions run on the reactor's thread, except `is_usable`, `set_up`, `open` and `place`, and the
 * client's operations, which run on any thread.
 */
#ifndef TARRY_SQL_DIALECT_H
#define TARRY_SQL_DIALECT_H

#include "base/list.h"
#include "base/mac.h"
#include "base/slice.h"
#include "sql/awaits.h"
#include "sql/client.h"
#include "sql/database_clock.h"
#include "sql/effect.h"
#include "sql/health.h"
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
    SQL_FAULT_PASSING,  /* a deadlock, or a lock held by another transaction: a retry may succeed */
    SQL_FAULT_OUTDATED, /* what the connection remembers has changed; it is read again by a retry */
    SQL_FAULT_GONE,     /* the connection is no longer usable, or leads to a read-only server */
    SQL_FAULT_NO_SPACE,
    SQL_FAULT_NO_MEMORY,
    SQL_FAULT_OTHER
};

struct sql_fault { /* The first fault of a transaction. */
    enum sql_fault_kind kind;
    char state[SQL_STATE_BYTES]; /* SQLSTATE */
    char message[SQL_MESSAGE_BYTES];
};

/* Base of a dialect's own structure, which begins with it. */
struct sql_link {
    const struct sql_dialect *dialect;
    struct sql_fault fault;
    bool is_committed; /* the transaction was committed with its first part */
};

/* State shared by the calls of one server. */
struct sql_context {
    struct sql_link *link;
    struct mac_key key;
    int64_t server;
    uint32_t topics_max;
    /* the database's time as of the last result; steps of one transaction differ by little */
    int64_t now_ms;
    int64_t now_seen_us; /* inner clock: arrival of now_ms; 0: with the end of the first part */
    int64_t first_ms;    /* the database's time at the start of the transaction; 0: as now_ms */
    int64_t adjust_ms;   /* the adjustment of the database's clock at now_ms */
    bool has_time;       /* the transaction has reported its time */
    struct sql_clock clock;
    bool by_sql; /* a job was found that a user's transaction pushed */
    struct sql_topics topics;
    struct sql_topic_plan plan;
    struct sql_effects effects;
    struct sql_awaits awaits;
    bool is_awaited; /* a client of any server waits for the end of a job, as of now_ms */
    /* kept jobs that this server has dropped before their time */
    uint64_t dropped[QUEUE_DROPS];
    struct sql_health health;
};

struct sql_plan {
    struct list *calls; /* struct sql_call; calls for the same job run in their order */
    /* number to set first, if the database has the one before it; 0: the transaction changes
     * nothing */
    int64_t ticket;
    bool is_durable; /* the commit waits for the disk */
    bool is_brief;   /* the transaction waits only briefly for a lock */
    bool is_alone;   /* no other server needs a notification */
    /* events are sent through the database, since a consumer listens at another server, or a
     * consumer here listens to the events of all servers */
    bool others_listen;
    /* the transaction changes nothing that must not be repeated; it consists of the first part
     * only */
    bool is_single;
    /* The transaction consists of pushes that need no notification. It may be committed with the
     * first part, and link.is_committed then records this. This is only allowed if each push
     * created a job at the ticket's time, so that the ticket determines all results. */
    bool is_whole;
};

enum sql_progress {
    SQL_UNDER_WAY = 1,
    SQL_PART_OVER, /* the result is in `fault` */
    SQL_LOST       /* the connection broke; `fault.message` may contain the reason */
};

/* Events of a socket. */
enum { SQL_READABLE = 1, SQL_WRITABLE = 2 };

/* Request for a new connection that can run a transaction. */
struct sql_wish {
    const char *url;
    int64_t server; /* the server's number so far; 0: assign one */
    bool migrate;
    bool knows_time;   /* from the previous connection: */
    int64_t offset_us; /* the database's clock minus the inner clock, rounded down */
};

struct sql_greeting {
    struct sql_link *link;
    int64_t server;
    int64_t ticket;         /* last number under which this server's transactions were committed */
    int64_t ticket_ms;      /* time of that commit, by the database's clock; 0: unknown */
    struct sql_times times; /* of the database's clock */
    int64_t moved_ms;       /* correction applied to the clock of another machine */
    int64_t connection;     /* number among the server's connections, if the database counts them */
    size_t packet_bytes_max; /* limit of the database for a packet, if it has one */
    struct mac_key key;
    char name[SQL_NAME_BYTES];
    char sync[SQL_SYNC_BYTES]; /* the settings that determine durability, for display */
    bool is_durable;
    char error[SQL_GREETING_ERROR_BYTES];
};

/* The statements of blocking questions. $1, $2, … are arguments. */
struct sql_questions {
    /* The whole schema as SQL, which users may run manually. */
    const char *schema;
    const size_t *schema_bytes;
    int schema_version;
    bool schema_has_delimiters; /* its statements must be sent one by one */
    const char *schema_exists;  /* NULL: not needed, because a missing table is not a failure */
    const char *schema_lock, *schema_unlock;
    const char *schema_undo; /* after a migration that failed */

    const char *hello;     /* server's number -> the columns of schema.c */
    const char *keep_time; /* machine, known machine, adjustment -> time, whether it was changed */
    const char *leap;      /* skips delivery numbers; NULL: `hello` does it */
    const char *ticket;    /* server's number -> number, time, number of the connection */

    const char *tokens_begin; /* sets up a connection for tokens; NULL: not needed */

    const char *fsck_begin;
    /* Each finds one kind of problem: text, number of jobs, and NULL, or the statements that repair
     * it (empty: repaired). $1: whether to repair. NULL-terminated. */
    const char *const *fsck_checks;
};

struct sql_dialect {
    const char *name;             /* as in /v1/info and metrics: "postgres" */
    const char *title;            /* for display: "PostgreSQL" */
    const char *const *schemes;   /* URL schemes, NULL-terminated */
    const char *durable, *frail;  /* what an answered push survives, as text */
    const char *durable_settings; /* how to achieve the first one */
    /* calls that only read, and upkeep, need no commit: see sql_plan.is_single */
    bool has_single_transactions;
    bool has_whole_transactions; /* see sql_plan.is_whole */
    bool keeps_finished;         /* finished jobs and waits for their end */
    bool groups;                 /* groups, limits, rates and holds */
    bool strict_groups;          /* and their strict order */
    bool batches;                /* jobs that wait for members */
    /* Polling interval for pushes of others while a consumer waits, and the interval for a second
     * after a push by SQL was found. Used if the database does not send notifications; 0: it sends
     * them. */
    int64_t look_ms, look_soon_ms;
    int64_t silence_ms;  /* time without a response after which the connection is given up */
    const char *product; /* in messages */
    const char *account; /* what the database calls a user, in messages */

    /* ---- blocking ---- */

    const struct sql_client_ops *client;
    const struct sql_questions *questions;
    /* The steps of a greeting that differ. They return false with the reason in `error`. */
    /* Checks the server: its version, whether it can be written. */
    bool (*is_usable)(struct sql_client *client, char *error, size_t error_bytes);
    /* Sets up the session for transactions, and notes whether the database is durable. */
    bool (*set_up)(struct sql_client *client, struct sql_greeting *out);
    /* Makes the link, which takes the client's connection. */
    bool (*open)(struct sql_client *client, const char *url, struct sql_greeting *out);
    /* Formats the URL without its password and parameters, for display. */
    void (*place)(const char *url, char *out, size_t out_bytes);

    /* ---- on the reactor ---- */

    void (*close)(struct sql_link *link);
    int (*socket)(const struct sql_link *link);
    /* Returns the events to wait for: SQL_READABLE, SQL_WRITABLE. */
    int (*wants)(const struct sql_link *link);
    /* Functions that begin a part. They return false if out of memory or if the connection is
     * lost. */
    bool (*send_calls)(struct sql_link *link, struct sql_context *context,
                       const struct sql_plan *plan);
    bool (*send_commit)(struct sql_link *link, struct sql_context *context,
                        const struct sql_plan *plan);
    bool (*send_rollback)(struct sql_link *link);
    /* Handles `events` of the socket. */
    enum sql_progress (*advance)(struct sql_link *link, struct sql_context *context, int events);
    /* Functions that make everything durable that was committed before, on a second connection, for
     * commits that do not wait for the disk. An error ends the connection. If all three are NULL,
     * or the socket is -1, each commit waits. */
    int (*flush_socket)(const struct sql_link *link);
    bool (*send_flush)(struct sql_link *link);
    enum sql_progress (*advance_flush)(struct sql_link *link);
    /* Returns the next notification of other servers, between transactions. Returns false if there
     * are no more. */
    bool (*next_notification)(struct sql_link *link, struct sql_notification *out);
};

/* Returns the dialect for the URL's scheme, or NULL if it is unknown. */
const struct sql_dialect *sql_dialect_of(const char *url);
/* List of all dialects, NULL-terminated. */
extern const struct sql_dialect *const sql_dialects[];

#endif
