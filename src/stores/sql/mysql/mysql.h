/*
 * mysql: the dialect of MariaDB and MySQL: libmariadb's non-blocking calls, statements for many rows,
 * looks in place of news.
 */
#ifndef TARRY_SQL_MYSQL_MYSQL_H
#define TARRY_SQL_MYSQL_MYSQL_H

#include "sql/dialect.h"

extern const struct sql_dialect sql_mysql;
/* Of it. */
extern const struct sql_tokens_ops sql_mysql_tokens;

#endif
