/*
 * flusher: a connection whose commits wait for the disk, and for the standbys that the database's
 * settings name, beside one whose commits do not. PostgreSQL has one log: a commit that is on the disk
 * has all before it there.
 */
#ifndef TARRY_SQL_POSTGRES_FLUSHER_H
#define TARRY_SQL_POSTGRES_FLUSHER_H

#include "sql/dialect.h"
#include "sql/postgres/libpq.h"

/* Blocking: makes one of a new connection, which may be NULL and is the flusher's from then on; both are
 * not in pipeline mode, and a first flush is done. NULL: it cannot be one, as where the address led to
 * another server than `beside`'s; then commits wait by themselves. */
PGconn *postgres_flusher_of(PGconn *connection, PGconn *beside);
/* False: the connection is gone. */
bool postgres_flusher_send(PGconn *flusher);
/* The socket is ready. SQL_PART_OVER: what was committed before the last send is durable. SQL_LOST:
 * `fault` says why. */
enum sql_progress postgres_flusher_advance(PGconn *flusher, struct sql_fault *fault);

#endif
