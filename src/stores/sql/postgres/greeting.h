/*
 * greeting: a new connection, from the URL to the point where a session may send its first turn.
 * Blocking: at the start, or on a helper thread.
 */
#ifndef TARRY_SQL_POSTGRES_GREETING_H
#define TARRY_SQL_POSTGRES_GREETING_H

#include "sql/dialect.h"
#include "sql/postgres/libpq.h"

/* All of `out` but its link, and the connection, non-blocking, in pipeline mode, all statements
 * prepared, its number among the server's, and its flusher, or NULL. False: `error` says why, and there
 * is no connection. */
bool postgres_greet(const struct sql_wish *wish, struct sql_greeting *out, PGconn **connection,
                    int64_t *number, PGconn **flusher);

/* Blocking: only a connection, for commands. NULL: `error` says why. */
PGconn *sql_connect(const char *url, char *error, size_t error_bytes);

/* The URL without its password and parameters, for people. */
void sql_url_emit(const char *url, char *out, size_t out_bytes);

#endif
