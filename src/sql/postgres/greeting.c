#include "sql/postgres/greeting.h"

#include "base/error.h"
#include "sql/postgres/row.h"
#include "sql/postgres/schema.h"
#include "sql/postgres/statement.h"

#include <stdio.h>
#include <string.h>

/* Plans that never go over a whole table: what a planner knows of a queue is always out of date. */
static const char settings[] =
    "SET lock_timeout = '100ms'; SET statement_timeout = '30s';"
    "SET idle_in_transaction_session_timeout = '5s';"
    "SET default_transaction_isolation = 'read committed'; SET search_path = pg_catalog;"
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;"
    "SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan";

/* One line: libpq's texts have several. */
static void error_line(char *error, size_t error_bytes, const char *what, const char *why)
{
    error_write(error, error_bytes, "%s: %s", what, why);
    for (char *at = error; error && *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = at[1] ? ' ' : '\0';
}

/* What is only remarked goes nowhere; libpq would print it. */
static void drop_notice(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

PGconn *sql_connect(const char *url, char *error, size_t error_bytes)
{
    static const char *const names[] = {"dbname",
                                        "connect_timeout",
                                        "fallback_application_name",
                                        "client_encoding",
                                        "keepalives_idle",
                                        "tcp_user_timeout",
                                        NULL};
    const char *const values[] = {url, "5", "tarry", "UTF8", "10", "20000", NULL};
    if (!libpq_load(error, error_bytes))
        return NULL;
    PGconn *connection = libpq.PQconnectdbParams(names, values, 1);
    (void)libpq.PQsetNoticeProcessor(connection, drop_notice, NULL);
    if (libpq.PQstatus(connection) == CONNECTION_OK)
        return connection;
    error_line(error, error_bytes, "cannot reach PostgreSQL", libpq.PQerrorMessage(connection));
    libpq.PQfinish(connection);
    return NULL;
}

/* `locked`: what is said where others hold what it wants; NULL: PostgreSQL's own words. */
static PGresult *ask(struct sql_greeting *out, const char *text, int64_t number, const char *locked)
{
    char digits[24];
    const char *values[1] = {digits};
    (void)snprintf(digits, sizeof digits, "%lld", (long long)number);
    PGresult *result =
        libpq.PQexecParams(out->connection, text, number ? 1 : 0, NULL, values, NULL, NULL, 1);
    if (libpq.PQresultStatus(result) == PGRES_TUPLES_OK && libpq.PQntuples(result) == 1)
        return result;
    const char *state = libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (locked && state && strcmp(state, "55P03") == 0)
        error_write(out->error, sizeof out->error, "%s", locked);
    else
        error_line(out->error, sizeof out->error, "cannot use PostgreSQL",
                   libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return NULL;
}

static bool set_up(struct sql_greeting *out)
{
    PGresult *result = libpq.PQexec(out->connection, settings);
    bool is_done = libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!is_done)
        error_line(out->error, sizeof out->error, "cannot set up the session",
                   libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return is_done;
}

static bool read_durability(struct sql_greeting *out)
{
    PGresult *result = ask(out,
                           "SELECT current_setting('synchronous_commit'), current_setting('fsync') "
                           "= 'on' AND current_setting('full_page_writes') = 'on'",
                           0, NULL);
    if (!result)
        return false;
    struct slice sync = sql_row_text(result, 0, 0);
    (void)snprintf(out->sync, sizeof out->sync, "%.*s", (int)sync.len, sync.at);
    out->is_durable = sql_row_flag(result, 0, 1) && !slice_is(sync, "off");
    libpq.PQclear(result);
    return true;
}

static bool introduce(struct sql_greeting *out, int64_t server)
{
    PGresult *result = server ? ask(out, "SELECT * FROM tarry._hello($1)", server, NULL)
                              : ask(out, "SELECT * FROM tarry._hello(0)", 0, NULL);
    if (!result)
        return false;
    struct slice name = sql_row_text(result, 0, 2), key = sql_row_text(result, 0, 3);
    out->server = sql_row_number(result, 0, 0);
    out->now_ms = sql_row_number(result, 0, 1);
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)name.len, name.at);
    if (key.len == sizeof out->key)
        memcpy(&out->key, key.at, sizeof out->key);
    libpq.PQclear(result);
    return true;
}

/* A backend that still carries out this server's last transaction holds the row: then this fails, and
 * is tried again, until that has ended. */
static bool read_ticket(struct sql_greeting *out)
{
    PGresult *result =
        ask(out, "SELECT number FROM tarry.ticket WHERE server = $1 FOR UPDATE", out->server,
            "the last transaction of this server still runs, waiting for its end");
    if (!result)
        return false;
    out->ticket = sql_row_number(result, 0, 0);
    libpq.PQclear(result);
    return true;
}

static bool listen_to_news(struct sql_greeting *out)
{
    PGresult *result = libpq.PQexec(out->connection, "LISTEN tarry");
    bool is_done = libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!is_done)
        error_line(out->error, sizeof out->error, "cannot LISTEN",
                   libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return is_done;
}

static bool is_new_enough(struct sql_greeting *out)
{
    enum { OLDEST = 140000 };
    out->version = libpq.PQserverVersion(out->connection);
    return out->version >= OLDEST ||
           error_text(out->error, sizeof out->error,
                      "the server is PostgreSQL %d, which is too old, give one of 14 or above",
                      out->version / 10000);
}

bool sql_greet(const struct sql_wish *wish, struct sql_greeting *out)
{
    *out = (struct sql_greeting){0};
    out->connection = sql_connect(wish->url, out->error, sizeof out->error);
    if (!out->connection)
        return false;
    if (is_new_enough(out) &&
        sql_schema_check(out->connection, wish->migrate, out->error, sizeof out->error) &&
        read_durability(out) && set_up(out) && listen_to_news(out) &&
        introduce(out, wish->server) && read_ticket(out) &&
        sql_statements_prepare(out->connection, out->error, sizeof out->error) &&
        libpq.PQsetnonblocking(out->connection, 1) == 0 &&
        libpq.PQenterPipelineMode(out->connection) == 1)
        return true;
    if (!out->error[0])
        error_line(out->error, sizeof out->error, "lost PostgreSQL",
                   libpq.PQerrorMessage(out->connection));
    libpq.PQfinish(out->connection);
    out->connection = NULL;
    return false;
}

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (; options && options->keyword; options++)
        if (strcmp(options->keyword, name) == 0 && options->val && options->val[0])
            return options->val;
    return NULL;
}

void sql_url_emit(const char *url, char *out, size_t out_bytes)
{
    PQconninfoOption *options = NULL;
    (void)snprintf(out, out_bytes, "postgres://");
    if (!libpq_load(NULL, 0) || !(options = libpq.PQconninfoParse(url, NULL)))
        return;
    const char *host = value_of(options, "host"), *port = value_of(options, "port");
    const char *database = value_of(options, "dbname");
    (void)snprintf(out, out_bytes, "postgres://%s%s%s%s%s", host ? host : "", port ? ":" : "",
                   port ? port : "", database ? "/" : "", database ? database : "");
    libpq.PQconninfoFree(options);
}
