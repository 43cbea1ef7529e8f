/*
 * row: reads the values of a result's rows in PostgreSQL's binary format.
 *
 * Texts point into the result and are valid as long as it is. NULL is read as 0, false, or an empty
 * text.
 */
#ifndef TARRY_SQL_POSTGRES_ROW_H
#define TARRY_SQL_POSTGRES_ROW_H

#include "base/slice.h"
#include "sql/effect.h"
#include "sql/postgres/libpq.h"

#include <stdint.h>

bool postgres_row_is_null(const PGresult *result, int row, int column);
int64_t postgres_row_number(const PGresult *result, int row,
                            int column); /* boolean, smallint, int, bigint */
bool postgres_row_flag(const PGresult *result, int row, int column);
struct slice postgres_row_text(const PGresult *result, int row, int column); /* text, bytea */
/* Reads a bigint[]. Missing entries are 0. */
void postgres_row_counts(const PGresult *result, int row, int column, int64_t counts[SQL_COUNTS]);

#endif
