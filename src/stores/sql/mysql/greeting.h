/*
 * greeting: makes a new connection to MariaDB or MySQL, from the URL to the point where a session
 * may send its first transaction. Blocking: at the start, or on a helper thread.
 *
 *     mysql://USER@HOST[:PORT][,HOST…]/[DATABASE][?socket=PATH&tls=off|on|verify&ca=FILE&password_file=FILE]
 *
 * If the URL has several hosts, the first writable one is used.
 */
#ifndef TARRY_SQL_MYSQL_GREETING_H
#define TARRY_SQL_MYSQL_GREETING_H

#include "sql/dialect.h"
#include "sql/mysql/libmariadb.h"

/* Connects and fills in `out`, except its link. Returns false without a connection on failure, with
 * the reason in `error` of `out`. */
/* `packet_bytes_max`: the largest packet that the database accepts. */
bool mysql_greet(const struct sql_wish *wish, struct sql_greeting *out, MYSQL **mysql,
                 size_t *packet_bytes_max);

/* Makes a connection only, for commands. Returns NULL on failure, with the reason in `error`. */
MYSQL *mysql_connect(const char *url, char *error, size_t error_bytes);

/* Returns true if a server with this version string can execute the dialect's statements: MariaDB
 * 10.6 or MySQL 8.0 and above. Returns false otherwise, with the reason in `error`. */
bool mysql_version_check(const char *version, char *error, size_t error_bytes);

bool mysql_version_is_mariadb(const char *version);

/* Formats the URL without its password and parameters, for display. */
void mysql_url_emit(const char *url, char *out, size_t out_bytes);

#endif
