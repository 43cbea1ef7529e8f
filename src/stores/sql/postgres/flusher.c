#include "sql/postgres/flusher.h"

#include <stdio.h>
#include <string.h>

/* Statement that gets a transaction number but only writes to the log, so there is nothing to
 * vacuum. */
static const char flush_text[] = "SELECT pg_catalog.pg_logical_emit_message(true, 'tarry', '')";
static const char flush_name[] = "tarry_flush";

/* Returns true if both connections lead to the same server. An address may lead to different
 * servers over time. */
static bool is_same_server(PGconn *one, PGconn *other)
{
    static const char question[] = "SELECT pg_catalog.date_part('epoch', "
                                   "pg_catalog.pg_postmaster_start_time())";
    PGresult *first = libpq.PQexec(one, question), *second = libpq.PQexec(other, question);
    bool is_same = libpq.PQresultStatus(first) == PGRES_TUPLES_OK &&
                   libpq.PQresultStatus(second) == PGRES_TUPLES_OK &&
                   strcmp(libpq.PQgetvalue(first, 0, 0), libpq.PQgetvalue(second, 0, 0)) == 0;
    libpq.PQclear(first);
    libpq.PQclear(second);
    return is_same;
}

static bool prepare(PGconn *flusher)
{
    PGresult *result = libpq.PQexec(flusher, "SET idle_session_timeout = 0");
    bool is_good = libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
    libpq.PQclear(result);
    result = libpq.PQprepare(flusher, flush_name, flush_text, 0, NULL);
    is_good = is_good && libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
    libpq.PQclear(result);
    result = libpq.PQexec(flusher, flush_text);
    is_good = is_good && libpq.PQresultStatus(result) == PGRES_TUPLES_OK;
    libpq.PQclear(result);
    return is_good && libpq.PQsetnonblocking(flusher, 1) == 0;
}

PGconn *postgres_flusher_of(PGconn *connection, PGconn *beside)
{
    if (connection && is_same_server(beside, connection) && prepare(connection))
        return connection;
    libpq.PQfinish(connection);
    return NULL;
}

/* Sends the statement. It fits into the socket's buffer and nothing else is in progress, so it is
 * never sent partially. */
bool postgres_flusher_send(PGconn *flusher)
{
    return libpq.PQsendQueryPrepared(flusher, flush_name, 0, NULL, NULL, NULL, 1) == 1 &&
           libpq.PQflush(flusher) == 0;
}

static void note_failure(struct sql_fault *fault, const PGresult *result, const char *message)
{
    const char *state = result ? libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    if (fault->message[0])
        return;
    (void)snprintf(fault->state, sizeof fault->state, "%s", state ? state : "08006");
    (void)snprintf(fault->message, sizeof fault->message, "%s", message);
}

enum sql_progress postgres_flusher_advance(PGconn *flusher, struct sql_fault *fault)
{
    if (libpq.PQconsumeInput(flusher) != 1) {
        note_failure(fault, NULL, libpq.PQerrorMessage(flusher));
        return SQL_LOST;
    }
    while (!libpq.PQisBusy(flusher)) {
        PGresult *result = libpq.PQgetResult(flusher);
        if (!result)
            return SQL_PART_OVER; /* the row arrives before the commit, this after it */
        bool is_good = libpq.PQresultStatus(result) == PGRES_TUPLES_OK;
        if (!is_good)
            note_failure(fault, result, libpq.PQresultErrorMessage(result));
        libpq.PQclear(result);
        if (!is_good)
            return SQL_LOST;
    }
    return SQL_UNDER_WAY;
}
