/*
 * schema: the tables and functions in the database, by numbered migrations. Blocking.
 */
#ifndef TARRY_SQL_POSTGRES_SCHEMA_H
#define TARRY_SQL_POSTGRES_SCHEMA_H

#include "base/slice.h"
#include "sql/postgres/libpq.h"

enum { SQL_SCHEMA_VERSION = 1 };

/* All of it, as SQL, for who runs it by hand. */
struct slice sql_schema_text(void);

/* Whether this version can use the schema; with `migrate` it is made, or brought to this version,
 * where it is not, under a lock: servers that start together wait for the first. False: `error`
 * says what to do. */
bool sql_schema_check(PGconn *connection, bool migrate, char *error, size_t error_bytes);

#endif
