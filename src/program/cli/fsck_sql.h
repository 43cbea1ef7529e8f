/* fsck_sql: 'tarry fsck' of a queue in a database. */
#ifndef TARRY_CLI_FSCK_SQL_H
#define TARRY_CLI_FSCK_SQL_H

#include <stdbool.h>

/* Is the store one of them? */
bool fsck_sql_is_store(const char *store);
/* Checks the queue and prints what was found; the exit code. */
int fsck_sql(const char *store, bool repair, bool json);

#endif
