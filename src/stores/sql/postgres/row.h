/*
 * row: the values of a result's rows, which come in PostgreSQL's binary form.
 *
 * Texts point into the result and are good as long as it is. NULL reads as 0, false, or nothing.
 */
#ifndef TARRY_SQL_POSTGRES_ROW_H
#define TARRY_SQL_POSTGRES_ROW_H

#include "base/slice.h"
#include "sql/effect.h"
#include "sql/postgres/libpq.h"

#include <stdint.h>

bool sql_row_is_null(const PGresult *result, int row, int column);
int64_t sql_row_number(const PGresult *result, int row,
                       int column); /* boolean, smallint, int, bigint */
bool sql_row_flag(const PGresult *result, int row, int column);
struct slice sql_row_text(const PGresult *result, int row, int column); /* text, bytea */
/* bigint[]; what is not there is 0. */
void sql_row_counts(const PGresult *result, int row, int column, int64_t counts[SQL_COUNTS]);

#endif
