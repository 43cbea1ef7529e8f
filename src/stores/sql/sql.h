/*
 * sql: the delay queue in a database that the user already runs: several servers share one queue,
 * and jobs can be pushed in the user's own transactions. PostgreSQL. This is the public interface
 * of the room.
 *
 * The database decides: all state is in the database and every change is conditional on the row.
 * Servers only hold hints in memory. Any server can handle any request and may fail at any time.
 * The time is that of the database.
 *
 * Life cycle
 *
 *   1. sql_open: blocking, before the reactor runs. Connects to the database, checks or
 *      creates the schema.
 *   2. sql_attach on a reactor: returns the handle for the fronts.
 *   3. sql_stop: new calls are answered QUEUE_STOPPING. Calls in progress are finished, or answered
 *      QUEUE_UNAVAILABLE after SQL_STOP_MS. Then `stopped` is called.
 *   4. sql_free after the reactor has stopped.
 *
 * One reactor per struct sql. All functions but sql_open run on its thread.
 */
#ifndef TARRY_SQL_SQL_H
#define TARRY_SQL_SQL_H

#include "base/buckets.h"
#include "feed/feed.h"
#include "net/reactor.h"
#include "queue/queue.h"

struct sql;

enum { SQL_STOP_MS = 3000, SQL_URL_BYTES_MAX = 1024 };

struct sql_options {
    const char *url; /* in libpq's format: postgres://user@host,host/database?sslmode=… */
    bool migrate;    /* create the schema, or migrate it to this version */
    uint64_t body_bytes_max;
    uint32_t topics_max;
    int64_t timeout_ms; /* timeout for calls while the database is unreachable; 0: 10 s */
};

struct sql_figures {
    uint64_t transactions; /* transactions */
    uint64_t calls;        /* calls in transactions */
    uint64_t repeated;     /* transactions that failed and were repeated */
    uint64_t reconnects;
    uint64_t settled; /* commits whose outcome had to be determined after a lost connection */
    uint64_t flushed; /* transactions that were made durable while others continued */
    uint64_t refused; /* calls that the database refused */
    uint64_t clock_corrections;
    int64_t clock_adjust_ms; /* the queue's time minus the database's clock */
    int64_t oldest_ms;       /* age of the oldest open transaction of the database; -1: unknown */
    int64_t dead_rows;       /* that the database has not cleaned away yet; -1: unknown */
    int64_t waiting;         /* calls without a reply */
    const struct buckets *commit_us; /* of transactions that change something, until the reply */
    bool is_up;
};
/* Bucket bounds of the durations of commits, in microseconds. */
extern const struct bucket_bounds sql_commit_bounds;

/* Returns 0, or a negative errno with `error`: what failed, where, what to do. */
int sql_open(const struct sql_options *options, struct sql **out, char *error, size_t error_bytes);
/* Sets the feed that receives events. Must be called before sql_attach. */
void sql_set_feed(struct sql *sql, struct feed *feed);
int sql_attach(struct sql *sql, struct reactor *reactor, struct queue **out, char *error,
               size_t error_bytes);
void sql_stop(struct sql *sql, void (*stopped)(void *ctx), void *ctx);
void sql_free(struct sql *sql);

/* Returns true if answered calls survive a crash and a power failure, according to the settings of
 * the database. */
bool sql_is_durable(const struct sql *sql);
/* Returns advice, as text for the user, for a database that is not durable. */
const char *sql_durable_settings(const struct sql *sql);
/* Returns the kind of database of a URL, as in metrics and /v1/info, or NULL if the URL is of an
 * unknown kind. */
const char *sql_kind(const char *url);
/* Returns the name of the store: 32 hex digits, the same for all servers that share it. */
const char *sql_store_name(const struct sql *sql);
void sql_figures(const struct sql *sql, struct sql_figures *out);
/* Formats the URL without its password, for display. */
void sql_place(const char *url, char *out, size_t out_bytes);

/* Creates the schema or migrates it to this version. sql_schema returns its text. Blocking, for
 * commands. */
int sql_migrate(const char *url, char *error, size_t error_bytes);
struct buffer;
bool sql_schema(const char *kind, struct buffer *out); /* `kind` as from sql_kind; false: unknown */

/* Checks the queue and prints each problem as a line on standard output, or all as one JSON object.
 * `mend`: repair what can be repaired without any loss. Returns the number of remaining problems,
 * or a negative errno. Blocking, for commands. */
int sql_fsck(const char *url, bool mend, bool json, char *error, size_t error_bytes);

/* Returns true if no call is in progress and nothing is due. For tests that move the clock. */
bool sql_is_quiet(struct sql *sql);

#endif
