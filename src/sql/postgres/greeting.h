/*
 * greeting: a new connection, from the URL to the point where a session may send its first turn.
 * Blocking: at the start, or on a helper thread.
 */
#ifndef TARRY_SQL_POSTGRES_GREETING_H
#define TARRY_SQL_POSTGRES_GREETING_H

#include "base/mac.h"
#include "sql/postgres/libpq.h"

#include <stdint.h>

enum { SQL_NAME_BYTES = 33, SQL_SYNC_BYTES = 32, SQL_GREETING_ERROR_BYTES = 400 };

struct sql_wish {
    const char *url;
    int64_t server; /* its number so far; 0: it gets one */
    bool migrate;
};

struct sql_greeting {
    PGconn *connection; /* non-blocking, in pipeline mode, all statements prepared */
    int64_t server;
    int64_t ticket; /* the last number that this server's transactions were committed under */
    int64_t now_ms; /* the database's clock */
    struct mac_key key;
    char name[SQL_NAME_BYTES];
    char sync[SQL_SYNC_BYTES]; /* synchronous_commit */
    bool is_durable;           /* fsync, full_page_writes and synchronous_commit are on */
    int version;               /* of PostgreSQL: 150018 */
    char error[SQL_GREETING_ERROR_BYTES];
};

/* False: `error` says why, and there is no connection. */
bool sql_greet(const struct sql_wish *wish, struct sql_greeting *out);

/* Blocking: only a connection, for commands. NULL: `error` says why. */
PGconn *sql_connect(const char *url, char *error, size_t error_bytes);

/* The URL without its password and parameters, for people. */
void sql_url_emit(const char *url, char *out, size_t out_bytes);

#endif
