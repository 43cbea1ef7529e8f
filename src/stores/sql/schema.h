/*
 * schema: the tables and functions in a database, by numbered migrations. Blocking.
 */
#ifndef TARRY_SQL_SCHEMA_H
#define TARRY_SQL_SCHEMA_H

#include "sql/client.h"
#include "sql/dialect.h"

struct buffer;
struct sql_questions;

/* Appends the whole schema as SQL. Its last statement stores a fingerprint of the text, by which a
 * schema of another build with the same version is recognised. Returns false if out of memory. */
bool sql_schema_emit(const struct sql_questions *questions, struct buffer *out);

/* Returns true if this version can use the schema. With `migrate`, creates it or migrates it to
 * this version first. This happens under a lock: servers that start together wait for the first
 * one. Returns false with instructions in `error` otherwise. */
bool sql_schema_check(struct sql_client *client, bool migrate, char *error, size_t error_bytes);

/*
 * greeting: makes a new connection, from the URL to the point where a session may send its first
 * transaction. Blocking: at the start, or on a helper thread.
 */

/* Connects. Returns false on failure, with the reason in `error` and without a link. */
bool sql_greet(const struct sql_dialect *dialect, const struct sql_wish *wish,
               struct sql_greeting *out);

#endif
