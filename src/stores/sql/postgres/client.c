#include "sql/postgres/client.h"

#include "sql/client.h"

#include "base/error.h"
#include "base/hex.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- libpq ---- */

struct libpq libpq;

#define ROW(NAME) {#NAME, &libpq.NAME},
static const struct sql_client_function functions[] = {LIBPQ_FUNCTIONS(ROW)};
#undef ROW

static struct sql_client_library library = {
    .file = "libpq.so.5",
    .database = "PostgreSQL",
    .package = "libpq5",
    .functions = functions,
    .count = sizeof functions / sizeof functions[0],
};

bool libpq_load(char *error, size_t error_bytes)
{
    return sql_client_library_load(&library, error, error_bytes);
}

/* ---- client ---- */

/* Settings on which the meaning of tarry's SQL depends, and time limits, for every connection. A
 * database or a role may have other defaults. The first statements of each session. A partitioned
 * table cannot be created if the default tablespace is the one that the database has anyway. */
static const char terms[] =
    "SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET idle_session_timeout = "
    "0;"
    "SELECT set_config('transaction_timeout', '0', false) "
    "WHERE current_setting('transaction_timeout', true) IS NOT NULL;" /* PostgreSQL 17 */
    "SET standard_conforming_strings = on; SET search_path = pg_catalog; SET bytea_output = hex;"
    "SET datestyle = 'ISO, YMD'; SET intervalstyle = postgres; SET timezone = 'UTC';"
    "SET extra_float_digits = 1; SET array_nulls = on; SET transform_null_equals = off;"
    "SET default_transaction_isolation = 'read committed';"
    "SET plpgsql.extra_errors = none;"
    "SET exit_on_error = off; SET client_min_messages = warning;"
    "SELECT set_config('default_tablespace', '', false) FROM pg_catalog.pg_database d "
    "JOIN pg_catalog.pg_tablespace t ON t.oid = d.dattablespace "
    "WHERE d.datname = current_database() AND t.spcname = current_setting('default_tablespace');"
    "SET check_function_bodies = on; SET row_security = on; SET xmloption = content";

/* Formats an error as one line. libpq's messages have several lines; hints, which begin with a tab,
 * are left out, because `remedy` replaces them. */
static void error_line(char *error, size_t error_bytes, const char *what, const char *why,
                       const char *remedy)
{
    struct buffer lines;
    buffer_init(&lines, 4096);
    for (size_t len; *why; why += len + (why[len] == '\n')) {
        len = strcspn(why, "\n");
        if (len && *why != '\t') {
            buffer_append_text(&lines, lines.len ? " " : "");
            buffer_append(&lines, why, len);
        }
    }
    error_write(error, error_bytes, "%s: %.*s%s", what, (int)lines.len, lines.at ? lines.at : "",
                remedy);
    buffer_fini(&lines);
}

/* Discards notices, which libpq would print. */
static void drop_notice(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

/* Runs a short text that the statement_timeout of the database may cancel, which is not reset yet. */
static PGresult *ask_in_time(PGconn *connection, const char *text)
{
    enum { ATTEMPTS = 100 };
    static const char canceled[] = "57014";
    for (int i = 1;; i++) {
        PGresult *result = libpq.PQexec(connection, text);
        const char *state = libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (!state || strcmp(state, canceled) != 0 || i == ATTEMPTS)
            return result;
        libpq.PQclear(result);
    }
}

static bool agree(PGconn *connection, char *error, size_t error_bytes)
{
    libpq.PQclear(ask_in_time(connection, "SET statement_timeout = 0"));
    PGresult *result = libpq.PQexec(connection, terms);
    bool is_done = libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!is_done)
        error_line(error, error_bytes, "cannot set up the session",
                   result ? libpq.PQresultErrorMessage(result) : libpq.PQerrorMessage(connection),
                   "");
    libpq.PQclear(result);
    return is_done;
}

static PGconn *dial(const char *url)
{
    static const char *const names[] = {"dbname",
                                        "connect_timeout",
                                        "fallback_application_name",
                                        "client_encoding",
                                        "keepalives_idle",
                                        "tcp_user_timeout",
                                        NULL};
    const char *const values[] = {url, "5", "tarry", "UTF8", "10", "20000", NULL};
    PGconn *connection = libpq.PQconnectdbParams(names, values, 1);
    (void)libpq.PQsetNoticeProcessor(connection, drop_notice, NULL);
    return connection;
}

/* Returns the process that runs the text, whose last statement selects it. 0: unknown. */
static int process_of(PGconn *connection, const char *text)
{
    PGresult *result = ask_in_time(connection, text);
    int process = libpq.PQntuples(result) == 1 ? atoi(libpq.PQgetvalue(result, 0, 0)) : 0;
    libpq.PQclear(result);
    return process;
}

/* Returns true if a pooler gives the connection another process of PostgreSQL for each transaction.
 * The settings of a session would then be those of other programs, so nothing was set yet. The
 * transaction of a second connection gets the process that the first one has just used. */
static bool is_pooled(PGconn *connection, const char *url)
{
    static const char process[] = "SELECT pg_catalog.pg_backend_pid()";
    int first = process_of(connection, process);
    if (!first || first == libpq.PQbackendPID(connection))
        return false;
    PGconn *other = dial(url);
    int second = process_of(other, "BEGIN; SELECT pg_catalog.pg_backend_pid()");
    int again = process_of(connection, process);
    libpq.PQclear(libpq.PQexec(other, "ROLLBACK"));
    libpq.PQfinish(other);
    return second == first || again != first;
}

static void *on_connect(const char *url, char *error, size_t error_bytes)
{
    if (!libpq_load(error, error_bytes))
        return NULL;
    PGconn *connection = dial(url);
    bool is_reached = libpq.PQstatus(connection) == CONNECTION_OK;
    bool is_own = is_reached && !is_pooled(connection, url);
    if (is_own && agree(connection, error, error_bytes))
        return connection;
    if (!is_reached)
        error_line(error, error_bytes, "cannot reach PostgreSQL", libpq.PQerrorMessage(connection),
                   "; check that it runs, and the URL");
    else if (!is_own)
        error_write(error, error_bytes,
                    "the URL leads to a connection pooler in transaction mode, give the address of "
                    "PostgreSQL itself, or use session mode");
    libpq.PQfinish(connection);
    return NULL;
}

static void on_disconnect(void *connection)
{
    libpq.PQfinish(connection);
}

/* ---- questions ---- */

static enum sql_refusal refusal_of(const char *state)
{
    if (!state)
        return SQL_REFUSAL_LOST;
    if (strcmp(state, "55P03") == 0)
        return SQL_REFUSAL_LOCKED;
    return strcmp(state, "42501") == 0 ? SQL_REFUSAL_DENIED : SQL_REFUSAL_OTHER;
}

static bool refuse(struct sql_client *client, const PGresult *result)
{
    const char *message = libpq.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return sql_client_refuse(client, refusal_of(libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE)),
                             message ? message : libpq.PQerrorMessage(client->connection));
}

/* Converts bytes, which PostgreSQL writes as \\x and hexadecimal digits. */
static void add_bytes(struct sql_rows *rows, const char *text, size_t len)
{
    struct slice digits = slice_make(text + 2, len - 2);
    (void)hex_parse_bytes(digits, sql_rows_add(rows, digits.len / 2), digits.len / 2);
}

static void copy_cell(const PGresult *result, int row, int column, struct sql_rows *rows)
{
    enum { BYTEA = 17 };
    const char *text = libpq.PQgetvalue(result, row, column);
    size_t len = (size_t)libpq.PQgetlength(result, row, column);
    if (libpq.PQgetisnull(result, row, column))
        sql_rows_add_null(rows);
    else if (libpq.PQftype(result, column) == BYTEA && len >= 2)
        add_bytes(rows, text, len);
    else
        memcpy(sql_rows_add(rows, len), text, len);
}

static bool copy_rows(PGresult *result, struct sql_rows *rows)
{
    int count = libpq.PQntuples(result), columns = libpq.PQnfields(result);
    size_t bytes = 0;
    for (int i = 0; i < count * columns; i++)
        bytes += (size_t)libpq.PQgetlength(result, i / columns, i % columns);
    if (!sql_rows_init(rows, (size_t)count, (size_t)columns, bytes))
        return false;
    for (int i = 0; i < count * columns; i++)
        copy_cell(result, i / columns, i % columns, rows);
    rows->changed = strtoull(libpq.PQcmdTuples(result), NULL, 10);
    return true;
}

static PGresult *ask(PGconn *connection, const char *text, const struct sql_args *args)
{
    const char *values[SQL_ARGS_MAX];
    int lengths[SQL_ARGS_MAX], forms[SQL_ARGS_MAX];
    char numbers[SQL_ARGS_MAX][24];
    if (!args)
        return libpq.PQexec(connection, text);
    for (size_t i = 0; i < args->count; i++) {
        const struct sql_arg *arg = &args->at[i];
        (void)snprintf(numbers[i], sizeof numbers[i], "%" PRId64, arg->number);
        values[i] = arg->kind == SQL_ARG_NUMBER ? numbers[i] : arg->text.at ? arg->text.at : "";
        lengths[i] = (int)arg->text.len;
        forms[i] = arg->kind == SQL_ARG_BYTES;
    }
    return libpq.PQexecParams(connection, text, (int)args->count, NULL, values, lengths, forms, 0);
}

static bool on_ask(struct sql_client *client, const char *text, const struct sql_args *args,
                   struct sql_rows *rows)
{
    PGresult *result = ask(client->connection, text, args);
    ExecStatusType status = libpq.PQresultStatus(result);
    bool is_good =
        (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) || refuse(client, result);
    if (is_good && !copy_rows(result, rows))
        is_good = sql_client_refuse(client, SQL_REFUSAL_OTHER, "out of memory");
    libpq.PQclear(result);
    return is_good;
}

const struct sql_client_ops postgres_client = {
    .connect = on_connect, .disconnect = on_disconnect, .ask = on_ask};

/* ---- setup of a session ---- */

/* Settings that exclude scans of whole tables, since the planner's statistics of a queue are always
 * outdated. */
static const char settings[] =
    "SET lock_timeout = '100ms'; SET statement_timeout = '30s';"
    "SET idle_in_transaction_session_timeout = '5s';"
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;"
    "SET enable_mergejoin = off; SET enable_nestloop = on; SET enable_indexscan = on;"
    "SET enable_indexonlyscan = on; SET enable_sort = on; SET enable_partition_pruning = on;"
    "SET jit = off; SET plan_cache_mode = force_generic_plan";

static bool set_up_failed(const struct sql_client *client, struct sql_greeting *out)
{
    return error_text(out->error, sizeof out->error, "cannot set up the session: %s",
                      client->message);
}

bool postgres_is_usable(struct sql_client *client, char *error, size_t error_bytes)
{
    enum { OLDEST = 140000 };
    int version = libpq.PQserverVersion(client->connection);
    struct sql_rows row;
    if (version < OLDEST)
        return error_text(error, error_bytes,
                          "the server is PostgreSQL %d, which is too old, use 14 or above",
                          version / 10000);
    if (!sql_ask_row(client, "SHOW default_transaction_read_only", NULL, &row))
        return error_text(error, error_bytes, "cannot use PostgreSQL: %s", client->message);
    bool is_writable = !slice_is(sql_rows_text(&row, 0, 0), "on");
    sql_rows_fini(&row);
    return is_writable || error_text(error, error_bytes,
                                     "default_transaction_read_only is on, set it to off for the "
                                     "role of the server");
}

static bool read_durability(struct sql_client *client, struct sql_greeting *out)
{
    struct sql_rows row;
    if (!sql_ask_row(client,
                     "SELECT current_setting('synchronous_commit'), current_setting('fsync') "
                     "= 'on' AND current_setting('full_page_writes') = 'on'",
                     NULL, &row))
        return set_up_failed(client, out);
    struct slice sync = sql_rows_text(&row, 0, 0);
    (void)snprintf(out->sync, sizeof out->sync, "%.*s", (int)sync.len, sync.at);
    out->is_durable = slice_is(sql_rows_text(&row, 0, 1), "t") && !slice_is(sync, "off");
    sql_rows_fini(&row);
    return true;
}

bool postgres_set_up(struct sql_client *client, struct sql_greeting *out)
{
    return read_durability(client, out) && ((sql_ask(client, settings, NULL, NULL) &&
                                             sql_ask(client, "LISTEN tarry", NULL, NULL)) ||
                                            set_up_failed(client, out));
}

/* ---- URL ---- */

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (; options && options->keyword; options++)
        if (strcmp(options->keyword, name) == 0 && options->val && options->val[0])
            return options->val;
    return NULL;
}

void postgres_place(const char *url, char *out, size_t out_bytes)
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
