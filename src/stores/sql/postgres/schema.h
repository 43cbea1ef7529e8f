/*
 * schema: the tables and functions in the database, by numbered migrations. Blocking.
 */
#ifndef TARRY_SQL_POSTGRES_SCHEMA_H
#define TARRY_SQL_POSTGRES_SCHEMA_H

#include "base/slice.h"
#include "sql/postgres/libpq.h"

enum { POSTGRES_SCHEMA_VERSION = 1 };

/* Returns the whole schema as SQL, for users who run it manually. */
struct slice postgres_schema_text(void);

/* Returns true if this version can use the schema. With `migrate`, creates it or migrates it to
 * this version first. This happens under a lock: servers that start together wait for the first
 * one. Returns false with instructions in `error` otherwise. */
bool postgres_schema_check(PGconn *connection, bool migrate, char *error, size_t error_bytes);

#endif
