#include "sql/postgres/row.h"

static uint64_t big_endian(const char *at, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++)
        number = number << 8 | (unsigned char)at[i];
    return number;
}

bool postgres_row_is_null(const PGresult *result, int row, int column)
{
    return libpq.PQgetisnull(result, row, column);
}

int64_t postgres_row_number(const PGresult *result, int row, int column)
{
    const char *at = libpq.PQgetvalue(result, row, column);
    switch (libpq.PQgetlength(result, row, column)) {
    case 1:
        return *at != 0;
    case 2:
        return (int16_t)big_endian(at, 2);
    case 4:
        return (int32_t)big_endian(at, 4);
    case 6: /* location of a row */
        return (int64_t)big_endian(at, 6);
    case 8:
        return (int64_t)big_endian(at, 8);
    default:
        return 0;
    }
}

bool postgres_row_flag(const PGresult *result, int row, int column)
{
    return libpq.PQgetlength(result, row, column) == 1 &&
           libpq.PQgetvalue(result, row, column)[0] != 0;
}

struct slice postgres_row_text(const PGresult *result, int row, int column)
{
    return slice_make(libpq.PQgetvalue(result, row, column),
                      (size_t)libpq.PQgetlength(result, row, column));
}

/* Reads an array. Its header is: dimensions, has NULLs, type of the items, size, first index. Each
 * item is preceded by its length. */
void postgres_row_counts(const PGresult *result, int row, int column, int64_t counts[SQL_COUNTS])
{
    struct slice text = postgres_row_text(result, row, column);
    const size_t header = 20, item = 12;
    memset(counts, 0, SQL_COUNTS * sizeof *counts);
    for (size_t i = 0; i < SQL_COUNTS && text.len >= header + (i + 1) * item; i++)
        counts[i] = (int64_t)big_endian(text.at + header + i * item + 4, 8);
}
