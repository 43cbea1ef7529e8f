/* The tokens for all servers, in tarry.tokens of PostgreSQL. */
#include "sql/tokens.h"

#include "base/error.h"
#include "sql/postgres/greeting.h"
#include "sql/postgres/postgres.h"
#include "sql/postgres/row.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void on_disconnect(void *connection)
{
    libpq.PQfinish(connection);
}

/* Connects with short timeouts, since the server's own thread waits for the result. */
static void *on_connect(const char *url, char *error)
{
    PGconn *connection = postgres_connect(url, error, SQL_TOKENS_ERROR_BYTES);
    if (connection)
        libpq.PQclear(libpq.PQexec(connection,
                                   "SET statement_timeout = '5s'; SET lock_timeout = '2s'; "
                                   "SET default_transaction_isolation = 'read committed'; "
                                   "SET search_path = pg_catalog"));
    return connection;
}

static int tokens_failed(const PGresult *result, const char *doing, char *error)
{
    const char *state = libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state && strcmp(state, "42501") == 0)
        return error_result(
            -EACCES, error, SQL_TOKENS_ERROR_BYTES,
            "the database does not let this role %s the tokens: grant it SELECT, and to "
            "change them UPDATE, on tarry.tokens",
            doing);
    const char *message = libpq.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return error_result(state ? -EIO : -EHOSTUNREACH, error, SQL_TOKENS_ERROR_BYTES,
                        "cannot %s the tokens in PostgreSQL: %s", doing,
                        message ? message : "the connection is lost");
}

static int on_read(void *connection, char version[SQL_TOKENS_VERSION_BYTES], struct buffer *out,
                   char *error)
{
    const char *const values[] = {version};
    PGresult *result = libpq.PQexecParams(
        connection, "SELECT version, CASE WHEN version <> $1 THEN text END FROM tarry.tokens", 1,
        NULL, values, NULL, NULL, 1);
    int status = 0;
    if (libpq.PQresultStatus(result) != PGRES_TUPLES_OK) {
        status = tokens_failed(result, "read", error);
    } else if (libpq.PQntuples(result) != 1) {
        status = sql_tokens_absent(error);
    } else {
        struct slice present = postgres_row_text(result, 0, 0);
        (void)snprintf(version, SQL_TOKENS_VERSION_BYTES, "%.*s", (int)present.len, present.at);
        buffer_append_slice(out, postgres_row_text(result, 0, 1));
        if (out->failed)
            status = error_result(-EFBIG, error, SQL_TOKENS_ERROR_BYTES,
                                  "the tokens in PostgreSQL are too large");
    }
    libpq.PQclear(result);
    return status;
}

static int on_write(void *connection, const char *version, const char *next, struct slice text,
                    char *error)
{
    const char *const values[] = {version, next, text.at ? text.at : ""};
    const int lengths[] = {0, 0, (int)text.len}, forms[] = {0, 0, 1};
    PGresult *result = libpq.PQexecParams(
        connection,
        "UPDATE tarry.tokens SET version = $2, text = $3 WHERE version = $1 RETURNING version", 3,
        NULL, values, lengths, forms, 1);
    int status = 0;
    if (libpq.PQresultStatus(result) != PGRES_TUPLES_OK)
        status = tokens_failed(result, "write", error);
    else if (libpq.PQntuples(result) != 1)
        status = -EAGAIN;
    libpq.PQclear(result);
    return status;
}

const struct sql_tokens_ops sql_postgres_tokens = {
    .connect = on_connect, .disconnect = on_disconnect, .read = on_read, .write = on_write};
