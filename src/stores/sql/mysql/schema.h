/*
 * schema: the tables and procedures in MariaDB and MySQL, by numbered migrations. Blocking.
 */
#ifndef TARRY_SQL_MYSQL_SCHEMA_H
#define TARRY_SQL_MYSQL_SCHEMA_H

#include "base/slice.h"
#include "sql/mysql/libmariadb.h"

enum { MARIA_SCHEMA_VERSION = 1 };

/* All of it, as SQL, for who runs it by hand with the client mariadb or mysql. */
struct slice maria_schema_text(void);

/* Whether this version can use the schema; with `migrate` it is made, or brought to this version,
 * where it is not, under a lock: servers that start together wait for the first. False: `error`
 * says what to do. */
bool maria_schema_check(MYSQL *mysql, bool migrate, char *error, size_t error_bytes);

#endif
