/*
 * greeting: makes a new connection, from the URL to the point where a session may send its first
 * transaction. Blocking: at the start, or on a helper thread.
 */
#ifndef TARRY_SQL_GREETING_H
#define TARRY_SQL_GREETING_H

#include "sql/dialect.h"

/* Connects. Returns false on failure, with the reason in `error` and without a link. */
bool sql_greet(const struct sql_dialect *dialect, const struct sql_wish *wish,
               struct sql_greeting *out);

#endif
