/*
 * sql: the delay queue in a database that the user has anyway: several servers, one queue, and jobs
 * pushed in the user's own transactions. PostgreSQL. The public face of this room.
 *
 * Memory knows, the database decides: all state is in the database and every change is conditional
 * on the row, so servers are stateless but for hints: any takes any request, any may die at any
 * moment. Time is the database's.
 *
 * Life
 *   1. sql_open: blocking, before the reactor runs: reaches the database, checks or makes the schema.
 *   2. sql_attach on a reactor: the handle that fronts use.
 *   3. sql_stop: new calls are answered QUEUE_STOPPING, what is under way is finished or answered
 *      QUEUE_UNAVAILABLE after SQL_STOP_MS; then `stopped`.
 *   4. sql_free after the reactor has stopped.
 *
 * One reactor per struct sql. Everything but sql_open on its thread.
 */
#ifndef TARRY_SQL_SQL_H
#define TARRY_SQL_SQL_H

#include "feed/feed.h"
#include "net/reactor.h"
#include "queue/queue.h"

struct sql;

enum { SQL_STOP_MS = 3000, SQL_URL_BYTES_MAX = 1024 };

struct sql_options {
    const char *url; /* as libpq reads it: postgres://user@host,host/database?sslmode=… */
    bool migrate;    /* make the schema, or bring it to this version */
    uint64_t body_bytes_max;
    uint32_t topics_max;
    int64_t patience_ms; /* how long a call waits for a database out of reach; 0: 10 s */
};

struct sql_figures {
    uint64_t turns;    /* transactions */
    uint64_t calls;    /* in them */
    uint64_t repeated; /* turns that came to nothing and went again */
    uint64_t reconnects;
    uint64_t settled; /* commits whose fate was asked for */
    uint64_t flushed; /* turns that were made durable while others went on */
    int64_t waiting;  /* calls without a reply */
    bool is_up;
};

/* 0 or negative errno with `error`: what, where, what to do. */
int sql_open(const struct sql_options *options, struct sql **out, char *error, size_t error_bytes);
/* Where what happens is told; before sql_attach. */
void sql_set_feed(struct sql *sql, struct feed *feed);
int sql_attach(struct sql *sql, struct reactor *reactor, struct queue **out, char *error,
               size_t error_bytes);
void sql_stop(struct sql *sql, void (*stopped)(void *ctx), void *ctx);
void sql_free(struct sql *sql);

/* Does what was answered survive a crash and a power cut, as far as its settings tell? */
bool sql_is_durable(const struct sql *sql);
/* What to do where it does not, for people. */
const char *sql_durable_settings(const struct sql *sql);
/* The kind of database of a URL, as metrics and /v1/info say it; NULL: the URL is of none. */
const char *sql_kind(const char *url);
/* The store's own name: 32 hex digits, the same for all servers on it. */
const char *sql_store_name(const struct sql *sql);
void sql_figures(const struct sql *sql, struct sql_figures *out);
/* The URL without its password, for people. */
void sql_place(const char *url, char *out, size_t out_bytes);

/* Blocking, for commands: makes the schema or brings it to this version; its text. */
int sql_migrate(const char *url, char *error, size_t error_bytes);
struct slice sql_schema(const char *kind); /* as sql_kind says it; nothing: unknown */

/* Blocking, for commands: what is wrong with the queue there, a line each on standard output, or one
 * JSON object. `mend`: what can be mended without any loss is. How much is left, or negative errno. */
int sql_fsck(const char *url, bool mend, bool json, char *error, size_t error_bytes);

/* No call under way and nothing due: for tests that move the clock. */
bool sql_is_quiet(struct sql *sql);

#endif
