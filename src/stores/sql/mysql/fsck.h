/*
 * fsck: checks a queue in MariaDB or MySQL on one snapshot, while servers are running. Blocking,
 * for a command.
 */
#ifndef TARRY_SQL_MYSQL_FSCK_H
#define TARRY_SQL_MYSQL_FSCK_H

#include "sql/dialect.h"

/* Implements a dialect's `fsck`. Repairs only counts and the list of priorities, nothing else. */
bool mysql_fsck(const char *url, bool mend, struct sql_findings *out, char *error,
                size_t error_bytes);

#endif
