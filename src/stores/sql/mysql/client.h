/*
 * client: a blocking connection to MariaDB or MySQL.
 *
 *     mysql://USER@HOST[:PORT][,HOST…]/[DATABASE][?socket=PATH&tls=off|on|verify&ca=FILE&password_file=FILE]
 *
 * If the URL has several hosts, the first writable one is used.
 */
#ifndef TARRY_SQL_MYSQL_CLIENT_H
#define TARRY_SQL_MYSQL_CLIENT_H

#include "sql/dialect.h"
#include "sql/mysql/libmariadb.h"

extern const struct sql_client_ops mysql_client;

/* The dialect's steps of a greeting. */
bool mysql_is_usable(struct sql_client *client, char *error, size_t error_bytes);
bool mysql_set_up(struct sql_client *client, struct sql_greeting *out);

/* Returns true if a server with this version string can execute the dialect's statements: MariaDB
 * 10.6 or MySQL 8.0 and above. Returns false otherwise, with the reason in `error`. */
bool mysql_version_check(const char *version, char *error, size_t error_bytes);

bool mysql_version_is_mariadb(const char *version);

/* Formats the URL without its password and parameters, for display. */
void mysql_place(const char *url, char *out, size_t out_bytes);

#endif
