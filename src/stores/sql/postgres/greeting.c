#include "sql/postgres/greeting.h"

#include "base/clock.h"
#include "base/error.h"
#include "sql/postgres/flusher.h"
#include "sql/postgres/row.h"
#include "sql/postgres/schema.h"
#include "sql/postgres/statement.h"

#include <stdio.h>
#include <string.h>

/* Settings on which the meaning of tarry's SQL depends, and time limits, for every connection. A
 * database or a role may have other defaults. The first statements of each session. */
static const char terms[] =
    "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;"
    "SET idle_session_timeout = 0;"
    "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings "
    "WHERE name = 'transaction_timeout';" /* PostgreSQL 17 */
    "SET standard_conforming_strings = on; SET search_path = pg_catalog; SET bytea_output = hex;"
    "SET datestyle = 'ISO, YMD'; SET intervalstyle = postgres; SET timezone = 'UTC';"
    "SET extra_float_digits = 1; SET array_nulls = on; SET transform_null_equals = off;"
    "SET default_transaction_isolation = 'read committed';"
    "SET plpgsql.extra_errors = none;"
    "SET check_function_bodies = on; SET row_security = on; SET xmloption = content";

/* Settings that exclude scans of whole tables, since the planner's statistics of a queue are always
 * outdated. */
static const char settings[] =
    "SET lock_timeout = '100ms'; SET statement_timeout = '30s';"
    "SET idle_in_transaction_session_timeout = '5s';"
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;"
    "SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan";

/* Formats an error as one line, since libpq's messages have several. */
static void error_line(char *error, size_t error_bytes, const char *what, const char *why)
{
    error_write(error, error_bytes, "%s: %s", what, why);
    for (char *at = error; error && *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = at[1] ? ' ' : '\0';
}

/* Discards notices, which libpq would print. */
static void drop_notice(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

static bool agree(PGconn *connection, const char *text, char *error, size_t error_bytes)
{
    PGresult *result = libpq.PQexec(connection, text);
    bool is_done = libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!is_done)
        error_line(error, error_bytes, "cannot set up the session",
                   libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return is_done;
}

PGconn *postgres_connect(const char *url, char *error, size_t error_bytes)
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
    bool is_reached = libpq.PQstatus(connection) == CONNECTION_OK;
    if (is_reached && agree(connection, terms, error, error_bytes))
        return connection;
    if (!is_reached)
        error_line(error, error_bytes, "cannot reach PostgreSQL", libpq.PQerrorMessage(connection));
    libpq.PQfinish(connection);
    return NULL;
}

struct meeting { /* A greeting in progress. */
    PGconn *connection;
    int64_t number; /* among the server's connections */
    struct sql_greeting *out;
};

/* Runs a query. `locked` is the error message if another transaction holds the lock; NULL: use
 * PostgreSQL's message. */
static PGresult *ask(struct meeting *meeting, const char *text, int64_t number, const char *locked)
{
    char digits[24];
    const char *values[1] = {digits};
    (void)snprintf(digits, sizeof digits, "%lld", (long long)number);
    PGresult *result =
        libpq.PQexecParams(meeting->connection, text, number ? 1 : 0, NULL, values, NULL, NULL, 1);
    if (libpq.PQresultStatus(result) == PGRES_TUPLES_OK && libpq.PQntuples(result) == 1)
        return result;
    const char *state = libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (locked && state && strcmp(state, "55P03") == 0)
        error_write(meeting->out->error, sizeof meeting->out->error, "%s", locked);
    else
        error_line(meeting->out->error, sizeof meeting->out->error, "cannot use PostgreSQL",
                   libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return NULL;
}

static bool read_durability(struct meeting *meeting)
{
    PGresult *result = ask(meeting,
                           "SELECT current_setting('synchronous_commit'), current_setting('fsync') "
                           "= 'on' AND current_setting('full_page_writes') = 'on'",
                           0, NULL);
    if (!result)
        return false;
    struct slice sync = postgres_row_text(result, 0, 0);
    (void)snprintf(meeting->out->sync, sizeof meeting->out->sync, "%.*s", (int)sync.len, sync.at);
    meeting->out->is_durable = postgres_row_flag(result, 0, 1) && !slice_is(sync, "off");
    libpq.PQclear(result);
    return true;
}

/* Adjusts the database's clock to this server's record of its progress. The record was taken before
 * the new clock was read, so the result is late rather than early, and no job is delivered early. */
static bool keep_time(struct meeting *meeting, const PGresult *hello, int64_t expected_ms)
{
    int64_t timeline = postgres_row_number(hello, 0, 4), known = postgres_row_number(hello, 0, 5);
    int64_t adjust_ms = postgres_row_number(hello, 0, 6);
    int64_t moved_ms = expected_ms ? expected_ms - meeting->out->now_ms : 0;
    char text[160];
    if (timeline == known || !timeline)
        return true;
    if (!known) /* first of all servers */
        moved_ms = 0;
    (void)snprintf(text, sizeof text, "SELECT tarry._keep_time(%lld, %lld, %lld)",
                   (long long)timeline, (long long)known, (long long)(adjust_ms + moved_ms));
    PGresult *result = ask(meeting, text, 0, NULL);
    if (!result)
        return false;
    meeting->out->now_ms = postgres_row_number(result, 0, 0);
    meeting->out->moved_ms = moved_ms;
    libpq.PQclear(result);
    return true;
}

static bool introduce(struct meeting *meeting, const struct sql_wish *wish)
{
    int64_t expected_ms = wish->knows_time ? (clock_inner_us() + wish->offset_us) / 1000 : 0;
    PGresult *result = wish->server
                           ? ask(meeting, "SELECT * FROM tarry._hello($1)", wish->server, NULL)
                           : ask(meeting, "SELECT * FROM tarry._hello(0)", 0, NULL);
    if (!result)
        return false;
    struct slice name = postgres_row_text(result, 0, 2), key = postgres_row_text(result, 0, 3);
    meeting->out->server = postgres_row_number(result, 0, 0);
    meeting->out->now_ms = postgres_row_number(result, 0, 1);
    (void)snprintf(meeting->out->name, sizeof meeting->out->name, "%.*s", (int)name.len, name.at);
    if (key.len == sizeof meeting->out->key)
        memcpy(&meeting->out->key, key.at, sizeof meeting->out->key);
    bool is_kept = keep_time(meeting, result, expected_ms);
    libpq.PQclear(result);
    return is_kept;
}

/* Reads the ticket. If a backend still runs this server's last transaction, it holds the row. The
 * call then fails, and is retried until that transaction has ended. A backend that reaches the
 * ticket later, because the statement was still in its buffer, detects the newer connection and
 * does nothing. */
static bool read_ticket(struct meeting *meeting)
{
    PGresult *result =
        ask(meeting,
            "UPDATE tarry.ticket SET connection = connection + 1 WHERE server = $1 "
            "RETURNING number, at, connection",
            meeting->out->server,
            "the last transaction of this server is still running, waiting for its end");
    if (!result)
        return false;
    meeting->out->ticket = postgres_row_number(result, 0, 0);
    meeting->out->ticket_ms = postgres_row_number(result, 0, 1);
    meeting->number = postgres_row_number(result, 0, 2);
    libpq.PQclear(result);
    return true;
}

static bool listen_to_news(struct meeting *meeting)
{
    PGresult *result = libpq.PQexec(meeting->connection, "LISTEN tarry");
    bool is_done = libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!is_done)
        error_line(meeting->out->error, sizeof meeting->out->error, "cannot LISTEN",
                   libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return is_done;
}

static bool is_new_enough(struct meeting *meeting)
{
    enum { OLDEST = 140000 };
    int version = libpq.PQserverVersion(meeting->connection);
    return version >= OLDEST ||
           error_text(meeting->out->error, sizeof meeting->out->error,
                      "the server is PostgreSQL %d, which is too old, use 14 or above",
                      version / 10000);
}

bool postgres_greet(const struct sql_wish *wish, struct sql_greeting *out, PGconn **connection,
                    int64_t *number, PGconn **flusher)
{
    struct meeting meeting = {.out = out};
    *out = (struct sql_greeting){0};
    meeting.connection = postgres_connect(wish->url, out->error, sizeof out->error);
    if (!meeting.connection)
        return false;
    bool is_ready =
        is_new_enough(&meeting) &&
        postgres_schema_check(meeting.connection, wish->migrate, out->error, sizeof out->error) &&
        read_durability(&meeting) &&
        agree(meeting.connection, settings, out->error, sizeof out->error) &&
        listen_to_news(&meeting) && introduce(&meeting, wish) && read_ticket(&meeting) &&
        postgres_statements_prepare(meeting.connection, out->error, sizeof out->error);
    *flusher = is_ready
                   ? postgres_flusher_of(postgres_connect(wish->url, NULL, 0), meeting.connection)
                   : NULL;
    if (is_ready && libpq.PQsetnonblocking(meeting.connection, 1) == 0 &&
        libpq.PQenterPipelineMode(meeting.connection) == 1) {
        *connection = meeting.connection;
        *number = meeting.number;
        return true;
    }
    if (!out->error[0])
        error_line(out->error, sizeof out->error, "lost PostgreSQL",
                   libpq.PQerrorMessage(meeting.connection));
    libpq.PQfinish(*flusher);
    libpq.PQfinish(meeting.connection);
    return false;
}

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (; options && options->keyword; options++)
        if (strcmp(options->keyword, name) == 0 && options->val && options->val[0])
            return options->val;
    return NULL;
}

void postgres_url_emit(const char *url, char *out, size_t out_bytes)
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
