/*
 * The queue on a real PostgreSQL, a real MariaDB, or a real MySQL: that of the directory in TARRY_TEST_MYSQL_SERVER,
 * which tests/e2e/support/mysql.py prints.
 *
 * All time of that store is tarry.now_ms(), in PostgreSQL also tarry._clock(), so the database gets
 * the suite's clock by other functions in their place, which read a table. If the suite steps the wall clock of the
 * machine it is on, the database's clock continues as before: it is another machine's. One server for the
 * whole program; a new world finds a new schema.
 */
#include "driver.h"

#include "base/clock.h"
#include "base/log.h"
#include "sql/mysql/client.h"
#include "sql/postgres/client.h"
#include "sql/sql.h"
#include "support/mariadb_server.h"
#include "support/postgres_server.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_US = 120 * 1000 * 1000, ANSWER_MS = 2 };

struct sql_driver {
    struct sql *sql;
    struct reactor *reactor;
    struct queue *queue;
    bool stopped;
};

/* ---- the databases ---- */

struct database {
    const char *name;
    const char *(*begin)(void); /* its URL */
    void (*do_text)(const char *text);
    const char *const *world; /* what makes another clock; at a world's beginning */
    bool has_begun, is_made;
    const char *url;
};

static struct postgres_server *postgres_server;
static PGconn *postgres;
static struct mariadb_server *mariadb_server;
static MYSQL *mariadb;

static void postgres_do(const char *text)
{
    PGresult *result = libpq.PQexec(postgres, text);

    if (libpq.PQresultStatus(result) != PGRES_COMMAND_OK &&
        libpq.PQresultStatus(result) != PGRES_TUPLES_OK) {
        fprintf(stderr, "postgres: %s: %s\n", text, libpq.PQresultErrorMessage(result));
        abort();
    }
    libpq.PQclear(result);
}

static void mariadb_do(const char *text)
{
    bool is_good = libmariadb.mysql_real_query(mariadb, text, strlen(text)) == 0;

    while (is_good && libmariadb.mysql_more_results(mariadb))
        is_good = libmariadb.mysql_next_result(mariadb) <= 0;
    if (!is_good) {
        fprintf(stderr, "mariadb: %s: %s\n", text, libmariadb.mysql_error(mariadb));
        abort();
    }
}

static void end_servers(void)
{
    if (postgres)
        libpq.PQfinish(postgres);
    if (mariadb)
        libmariadb.mysql_close(mariadb);
    postgres_server_free(postgres_server);
    mariadb_server_free(mariadb_server);
}

static const char *postgres_begin(void)
{
    static const char *const names[] = {"dbname", NULL};
    char error[512];

    postgres_server = postgres_server_new();
    if (!libpq_load(error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
    postgres = libpq.PQconnectdbParams(names, (const char *const[]){postgres_server->url, NULL}, 1);
    postgres_do("SET client_min_messages = warning; SET synchronous_commit = off;"
                "CREATE SCHEMA tarry_test; CREATE TABLE tarry_test.clock (ms bigint) WITH "
                "(fillfactor = 10);"
                "INSERT INTO tarry_test.clock VALUES (0)");
    return postgres_server->url;
}

static const char *begin_with(const char *mysql)
{
    enum { CONNECT_TRIES = 20 };
    char error[512];

    mariadb_server = mariadb_server_new(mysql);
    for (int tries = 0; tries < CONNECT_TRIES && !mariadb; tries++) {
        (void)usleep(tries ? 100 * 1000 : 0); /* it listens before it answers */
        mariadb = mysql_client.connect(mariadb_server->url, error, sizeof error);
    }
    if (!mariadb) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
    mariadb_do("CREATE DATABASE tarry_test; CREATE TABLE tarry_test.clock (ms BIGINT) "
               "ENGINE=InnoDB; INSERT INTO tarry_test.clock VALUES (0)");
    return mariadb_server->url;
}

static const char *mariadb_begin(void)
{
    return begin_with(NULL);
}

static const char *mysql_begin(void)
{
    enum { SKIPPED = 77 };
    const char *mysql = getenv("TARRY_TEST_MYSQL_SERVER");

    if (mysql)
        return begin_with(mysql);
    fprintf(stderr,
            "no MySQL: set TARRY_TEST_MYSQL_SERVER to what tests/e2e/support/mysql.py prints\n");
    exit(SKIPPED);
}

/* The servers compute the time of most transactions without tarry.now_ms(), from the adjustment of
 * the clock. If it is NULL, they call the function. */
static const char *const mariadb_world[] = {
    "DROP FUNCTION tarry.now_ms; CREATE FUNCTION tarry.now_ms() RETURNS BIGINT READS SQL DATA "
    "RETURN (SELECT ms FROM tarry_test.clock);"
    "ALTER TABLE tarry.store MODIFY adjust_ms BIGINT NULL;"
    "CREATE TRIGGER tarry.test_adjust BEFORE UPDATE ON tarry.store FOR EACH ROW "
    "SET NEW.adjust_ms = NULL; UPDATE tarry.store SET adjust_ms = NULL",
    "DELETE FROM tarry.topic; DELETE FROM tarry.job; DELETE FROM tarry.job_key;"
    "DELETE FROM tarry.level;"
    "DELETE FROM tarry.finished; DELETE FROM tarry.tally; DELETE FROM tarry.tally_add;"
    "DELETE FROM tarry.server; DELETE FROM tarry.ticket; DELETE FROM tarry.notification;"
    "DELETE FROM tarry.kept; DELETE FROM tarry.awaited; DELETE FROM tarry.grp;"
    "DELETE FROM tarry.grp_note; DELETE FROM tarry.job_grp;"
    "DELETE FROM tarry.job_tried; DELETE FROM tarry.batch; DELETE FROM tarry.batch_gate;"
    "DELETE FROM tarry.batch_add; DELETE FROM tarry.member"};

static struct database databases[] = {
    {
        .name = "postgres",
        .begin = postgres_begin,
        .do_text = postgres_do,
        .world =
            (const char *const[]){
                "CREATE OR REPLACE FUNCTION tarry.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS "
                "$$ SELECT ms FROM tarry_test.clock $$;"
                "CREATE OR REPLACE FUNCTION tarry._clock(OUT now bigint, OUT adjust bigint, OUT "
                "awaited boolean) LANGUAGE sql VOLATILE AS $$ SELECT ms, 0::bigint, EXISTS (SELECT "
                "FROM tarry.awaited) FROM tarry_test.clock $$",
                "DELETE FROM tarry.topic; DELETE FROM tarry.job; DELETE FROM tarry.level;"
                "DELETE FROM tarry.finished; DELETE FROM tarry.tally; DELETE FROM tarry.tally_add;"
                "DELETE FROM tarry.server; DELETE FROM tarry.ticket; DELETE FROM tarry.awaited;"
                "DELETE FROM tarry.grp; DELETE FROM tarry.grp_note; DELETE FROM tarry.batch;"
                "DELETE FROM tarry.batch_add"},
    },
    {
        .name = "mariadb",
        .begin = mariadb_begin,
        .do_text = mariadb_do,
        .world = mariadb_world,
    },
    {
        .name = "mysql",
        .begin = mysql_begin,
        .do_text = mariadb_do,
        .world = mariadb_world,
    },
};

static struct database *database; /* of the driver that is tried */
static int64_t notified_ms;

static void report_time(void)
{
    char text[128];

    if (notified_ms == clock_inner_ms())
        return;
    notified_ms = clock_inner_ms();
    snprintf(text, sizeof text, "UPDATE tarry_test.clock SET ms = %" PRId64, notified_ms);
    database->do_text(text);
}

/* ---- worlds ---- */

/* The same directory again is a restart of ours, which the database does not notice. */
static bool is_new(const char *dir)
{
    static char last[4096];
    bool same = strcmp(last, dir) == 0;

    snprintf(last, sizeof last, "%s", dir);
    return !same;
}

/* Empties all tables except the store's own, which is quicker than recreating the schema. */
static void begin_world(void)
{
    char error[512] = "";

    if (!database->is_made && sql_migrate(database->url, error, sizeof error) != 0) {
        fprintf(stderr, "%s: %s\n", database->name, error);
        abort();
    }
    if (!database->is_made)
        database->do_text(database->world[0]);
    database->is_made = true;
    database->do_text(database->world[1]);
}

static void begin_database(struct database *of)
{
    static bool ends;

    database = of;
    if (!ends)
        atexit(end_servers);
    ends = true;
    if (!of->has_begun)
        of->url = of->begin();
    of->has_begun = true;
}

static void *open_sql(const struct driver_options *options, struct database *of)
{
    struct sql_driver *self = calloc(1, sizeof *self);
    struct sql_options sql = {.body_bytes_max = options->body_bytes_max,
                              .topics_max = options->topics_max};
    char error[512] = "";

    assert(self);
    log_open(NULL, LOG_ERROR, false);
    begin_database(of);
    if (is_new(options->dir))
        begin_world();
    notified_ms = -1;
    report_time();
    sql.url = database->url;
    self->reactor = reactor_new(0);
    if (self->reactor && sql_open(&sql, &self->sql, error, sizeof error) == 0 &&
        sql_attach(self->sql, self->reactor, &self->queue, error, sizeof error) == 0)
        return self;
    fprintf(stderr, "%s: %s\n", database->name, error);
    return NULL;
}

static void *open_postgres(const struct driver_options *options)
{
    return open_sql(options, &databases[0]);
}

static void *open_mariadb(const struct driver_options *options)
{
    return open_sql(options, &databases[1]);
}

static void *open_mysql(const struct driver_options *options)
{
    return open_sql(options, &databases[2]);
}

static struct queue *queue_of(void *ctx)
{
    struct sql_driver *self = ctx;

    return self->queue;
}

/* The database is another process: waits until it answers. */
static void pump(void *ctx)
{
    struct sql_driver *self = ctx;
    uv_loop_t *loop = reactor_loop(self->reactor);
    struct pollfd answer = {.fd = uv_backend_fd(loop), .events = POLLIN};

    report_time();
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
        driver_rest();
    } while (clock_boot_us() < until_us);
    fprintf(stderr, "%s: something stays due, or under way, for ever\n", database->name);
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
        driver_rest();
    }
    sql_free(self->sql);
    reactor_free(self->reactor);
    free(self);
}

extern const struct driver driver_postgres, driver_mariadb, driver_mysql;

/* RUNS: each command is some twenty statements of a real database. */
#define SQL_DRIVER(NAME, RUNS)                                                                     \
    const struct driver driver_##NAME = {                                                          \
        .name = #NAME,                                                                             \
        .groups = true,                                                                            \
        .strict_groups = true,                                                                     \
        .batches = true,                                                                           \
        .lacks = DRIVER_LACKS_END_BY_REPLACE,                                                      \
        .shards = 1,                                                                               \
        .runs = RUNS,                                                                              \
        .forecasts_exactly = true,                                                                 \
        .clock_is_elsewhere = true,                                                                \
        .keeps_finished = true,                                                                    \
        .awaits = true,                                                                            \
        .open = open_##NAME,                                                                       \
        .queue = queue_of,                                                                         \
        .pump = pump,                                                                              \
        .moved = moved,                                                                            \
        .close = close_sql,                                                                        \
    }

SQL_DRIVER(postgres, 20);
SQL_DRIVER(mariadb, 8);
SQL_DRIVER(mysql, 8);
