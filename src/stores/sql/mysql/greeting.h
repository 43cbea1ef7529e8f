/*
 * greeting: a new connection to MariaDB or MySQL, from the URL to the point where a session may send
 * its first turn. Blocking: at the start, or on a helper thread.
 *
 *     mysql://USER@HOST[:PORT][,HOST…]/[DATABASE][?socket=PATH&tls=off|on|verify&ca=FILE&password_file=FILE]
 *
 * Of several hosts the first one that can be written to is taken.
 */
#ifndef TARRY_SQL_MYSQL_GREETING_H
#define TARRY_SQL_MYSQL_GREETING_H

#include "sql/dialect.h"
#include "sql/mysql/libmariadb.h"

/* All of `out` but its link, and the connection. False: `error` says why, and there is none. */
bool maria_greet(const struct sql_wish *wish, struct sql_greeting *out, MYSQL **mysql);

/* Only a connection, for commands. NULL: `error` says why. */
MYSQL *maria_connect(const char *url, char *error, size_t error_bytes);

/* Whether the dialect's statements are carried out by a server that names itself so: MariaDB 10.6 or
 * MySQL 8.0 and above. False: `error` says what is missing. */
bool maria_version_check(const char *version, char *error, size_t error_bytes);

bool maria_version_is_mariadb(const char *version);

/* The URL without its password and parameters, for people. */
void maria_url_emit(const char *url, char *out, size_t out_bytes);

#endif
