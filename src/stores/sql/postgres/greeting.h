/*
 * greeting: makes a new connection, from the URL to the point where a session may send its first
 * transaction. Blocking: at the start, or on a helper thread.
 */
#ifndef TARRY_SQL_POSTGRES_GREETING_H
#define TARRY_SQL_POSTGRES_GREETING_H

#include "sql/dialect.h"
#include "sql/postgres/libpq.h"

/* Connects and fills in `out`, except its link. The connection is non-blocking, in pipeline mode,
 * with all statements prepared. Also returns its number among the server's connections, and its
 * flusher or NULL. Returns false without a connection on failure, with the reason in `error` of
 * `out`. */
bool postgres_greet(const struct sql_wish *wish, struct sql_greeting *out, PGconn **connection,
                    int64_t *number, PGconn **flusher);

/* Makes a connection only, for commands. Blocking. Returns NULL on failure, with the reason in
 * `error`. */
PGconn *postgres_connect(const char *url, char *error, size_t error_bytes);

/* Formats the URL without its password and parameters, for display. */
void postgres_url_emit(const char *url, char *out, size_t out_bytes);

#endif
