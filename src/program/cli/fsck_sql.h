/* fsck_sql: 'tarry fsck' for a queue in a database. */
#ifndef TARRY_CLI_FSCK_SQL_H
#define TARRY_CLI_FSCK_SQL_H

#include <stdbool.h>

/* Returns whether the store is a database. */
bool fsck_sql_is_store(const char *store);
/* Checks the queue and prints the findings. Returns the exit code. */
int fsck_sql(const char *store, bool repair, bool json);

#endif
