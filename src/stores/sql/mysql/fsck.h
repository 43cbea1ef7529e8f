/*
 * fsck: what is wrong with a queue in MariaDB or MySQL, from one snapshot, while servers are at work.
 * Blocking, for a command.
 */
#ifndef TARRY_SQL_MYSQL_FSCK_H
#define TARRY_SQL_MYSQL_FSCK_H

#include "sql/dialect.h"

/* As a dialect's `fsck`: counts and the list of priorities can be mended, nothing else is touched. */
bool maria_fsck(const char *url, bool mend, struct sql_findings *out, char *error,
                size_t error_bytes);

#endif
