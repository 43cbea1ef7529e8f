/*
 * postgres: the dialect of PostgreSQL. It uses libpq in pipeline mode, functions of the schema, and
 * NOTIFY.
 */
#ifndef TARRY_SQL_POSTGRES_POSTGRES_H
#define TARRY_SQL_POSTGRES_POSTGRES_H

#include "sql/dialect.h"

extern const struct sql_dialect sql_postgres;
extern const struct sql_questions postgres_questions;

#endif
