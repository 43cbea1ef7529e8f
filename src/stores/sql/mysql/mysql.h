/*
 * mysql: the dialect of MariaDB and MySQL. It uses libmariadb's non-blocking calls, statements for
 * many rows, and polling instead of notifications.
 */
#ifndef TARRY_SQL_MYSQL_MYSQL_H
#define TARRY_SQL_MYSQL_MYSQL_H

#include "sql/dialect.h"

extern const struct sql_dialect sql_mysql;
extern const struct sql_questions mysql_questions;

#endif
