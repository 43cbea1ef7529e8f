/*
 * The queue on a real PostgreSQL.
 *
 * All time of that store is tarry.now_ms(), so the suite's clock is told to the database by putting
 * another function in its place, which reads a table. Where the suite steps the wall clock of the
 * machine it is on, the database's goes on as before: it is another machine's. One server for the
 * whole program; a world that is new finds a new schema.
 */
#include "driver.h"

#include "base/clock.h"
#include "base/log.h"
#include "sql/libpq.h"
#include "sql/sql.h"
#include "support/postgres_server.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_US = 20 * 1000 * 1000, ANSWER_MS = 2 };

struct sql_driver {
    struct sql *sql;
    struct reactor *reactor;
    struct queue *queue;
    bool stopped;
};

static struct postgres_server *server;
static PGconn *control; /* tells the time */
static int64_t told_ms;

static void do_text(const char *text)
{
    PGresult *result = libpq.PQexec(control, text);

    if (libpq.PQresultStatus(result) != PGRES_COMMAND_OK &&
        libpq.PQresultStatus(result) != PGRES_TUPLES_OK) {
        fprintf(stderr, "postgres: %s: %s\n", text, libpq.PQresultErrorMessage(result));
        abort();
    }
    libpq.PQclear(result);
}

static void tell_time(void)
{
    char text[128];

    if (told_ms == clock_inner_ms())
        return;
    told_ms = clock_inner_ms();
    snprintf(text, sizeof text, "UPDATE tarry_test.clock SET ms = %" PRId64, told_ms);
    do_text(text);
}

static void end_server(void)
{
    libpq.PQfinish(control);
    postgres_server_free(server);
}

static void begin_server(void)
{
    static const char *const names[] = {"dbname", NULL};
    char error[512];

    server = postgres_server_new();
    atexit(end_server);
    if (!libpq_load(error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
    control = libpq.PQconnectdbParams(names, (const char *const[]){server->url, NULL}, 1);
    do_text("SET client_min_messages = warning; SET synchronous_commit = off;"
            "CREATE SCHEMA tarry_test; CREATE TABLE tarry_test.clock (ms bigint) WITH (fillfactor "
            "= 10);"
            "INSERT INTO tarry_test.clock VALUES (0)");
}

/* The same directory again is a restart of ours, which PostgreSQL does not notice. */
static bool is_new(const char *dir)
{
    static char last[4096];
    bool same = strcmp(last, dir) == 0;

    snprintf(last, sizeof last, "%s", dir);
    return !same;
}

/* All tables but the store's own are emptied, which is quicker than to make the schema anew. */
static void begin_world(void)
{
    static bool made;
    char error[512] = "";

    if (!made && sql_migrate(server->url, error, sizeof error) != 0) {
        fprintf(stderr, "postgres: %s\n", error);
        abort();
    }
    if (!made)
        do_text("CREATE OR REPLACE FUNCTION tarry.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS "
                "$$ SELECT ms FROM tarry_test.clock $$");
    made = true;
    do_text("DELETE FROM tarry.topic; DELETE FROM tarry.job; DELETE FROM tarry.lane;"
            "DELETE FROM tarry.finished; DELETE FROM tarry.tally; DELETE FROM tarry.tally_add;"
            "DELETE FROM tarry.server; DELETE FROM tarry.ticket");
}

static void *open_sql(const struct driver_options *options)
{
    struct sql_driver *self = calloc(1, sizeof *self);
    struct sql_options sql = {.body_bytes_max = options->body_bytes_max,
                              .topics_max = options->topics_max};
    char error[512] = "";

    assert(self);
    log_open(NULL, LOG_ERROR, false);
    if (!server)
        begin_server();
    if (is_new(options->dir))
        begin_world();
    told_ms = -1;
    tell_time();
    sql.url = server->url;
    self->reactor = reactor_new(0);
    if (self->reactor && sql_open(&sql, &self->sql, error, sizeof error) == 0 &&
        sql_attach(self->sql, self->reactor, &self->queue, error, sizeof error) == 0)
        return self;
    fprintf(stderr, "postgres: %s\n", error);
    return NULL;
}

static struct queue *queue_of(void *ctx)
{
    struct sql_driver *self = ctx;

    return self->queue;
}

/* PostgreSQL is another process: where it is to answer, it is let run until it does. */
static void pump(void *ctx)
{
    struct sql_driver *self = ctx;
    uv_loop_t *loop = reactor_loop(self->reactor);
    struct pollfd answer = {.fd = uv_backend_fd(loop), .events = POLLIN};

    tell_time();
    uv_run(loop, UV_RUN_NOWAIT);
    if (!sql_is_quiet(self->sql))
        (void)poll(&answer, 1, ANSWER_MS);
}

static void moved(void *ctx)
{
    struct sql_driver *self = ctx;
    int64_t until_us = clock_boot_us() + PATIENCE_US;

    do {
        pump(self);
        if (sql_is_quiet(self->sql))
            return;
        sched_yield();
    } while (clock_boot_us() < until_us);
    fprintf(stderr, "postgres: something stays due, or under way, for ever\n");
    abort();
}

static void stopped(void *ctx)
{
    struct sql_driver *self = ctx;

    self->stopped = true;
}

static void close_sql(void *ctx)
{
    struct sql_driver *self = ctx;

    sql_stop(self->sql, stopped, self);
    while (!self->stopped) {
        pump(self);
        sched_yield();
    }
    sql_free(self->sql);
    reactor_free(self->reactor);
    free(self);
}

extern const struct driver driver_postgres;

const struct driver driver_postgres = {
    .name = "postgres",
    .lacks = DRIVER_LACKS_CHOICE,
    .shards = 1,
    .runs = 20, /* each command is some twenty statements of a real database */
    .forecasts_exactly = true,
    .clock_is_elsewhere = true,
    .open = open_sql,
    .queue = queue_of,
    .pump = pump,
    .moved = moved,
    .close = close_sql,
};
