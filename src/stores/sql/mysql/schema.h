/*
 * schema: the tables and procedures in MariaDB and MySQL, by numbered migrations. Blocking.
 */
#ifndef TARRY_SQL_MYSQL_SCHEMA_H
#define TARRY_SQL_MYSQL_SCHEMA_H

#include "base/slice.h"
#include "sql/mysql/libmariadb.h"

enum { MYSQL_SCHEMA_VERSION = 1 };

/* Returns the whole schema as SQL, for users who run it manually with the client mariadb or mysql. */
struct slice mysql_schema_text(void);

/* Returns true if this version can use the schema. With `migrate`, creates it or migrates it to
 * this version first. This happens under a lock: servers that start together wait for the first
 * one. Returns false with instructions in `error` otherwise. */
bool mysql_schema_check(MYSQL *mysql, bool migrate, char *error, size_t error_bytes);

#endif
