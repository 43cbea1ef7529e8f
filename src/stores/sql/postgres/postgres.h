/*
 * postgres: the dialect of PostgreSQL: libpq in pipeline mode, functions of the schema, NOTIFY.
 */
#ifndef TARRY_SQL_POSTGRES_POSTGRES_H
#define TARRY_SQL_POSTGRES_POSTGRES_H

#include "sql/dialect.h"

extern const struct sql_dialect sql_postgres;
/* Of it. */
extern const struct sql_tokens_ops sql_postgres_tokens;

#endif
