/*
 * flusher: a connection whose commits wait for the disk, and for the standbys in the database's
 * settings. It complements a connection whose commits do not wait. PostgreSQL has one log: if a
 * commit is on disk, so is everything before it.
 */
#ifndef TARRY_SQL_POSTGRES_FLUSHER_H
#define TARRY_SQL_POSTGRES_FLUSHER_H

#include "sql/dialect.h"
#include "sql/postgres/client.h"

/* Makes a flusher of a new connection and takes ownership of it. `connection` may be NULL. Both
 * connections must be out of pipeline mode. Performs a first flush; blocking. Returns NULL if the
 * connection cannot be a flusher, for example because its address led to another server than that
 * of `beside`. Commits then wait by themselves. */
PGconn *postgres_flusher_of(PGconn *connection, PGconn *beside);
/* Returns false if the connection is lost. */
bool postgres_flusher_send(PGconn *flusher);
/* Handles the socket's readiness. Returns SQL_PART_OVER if everything that was committed before the
 * last send is durable, and SQL_LOST with the reason in `fault` if the connection is lost. */
enum sql_progress postgres_flusher_advance(PGconn *flusher, struct sql_fault *fault);

#endif
