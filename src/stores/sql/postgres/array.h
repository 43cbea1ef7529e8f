/*
 * array: parameters of a statement for many items: one array per parameter, in PostgreSQL's binary
 * format, with one entry per item.
 *
 * One thread. If memory runs out or an array grows beyond its limit, sql_array_param returns false.
 */
#ifndef TARRY_SQL_POSTGRES_ARRAY_H
#define TARRY_SQL_POSTGRES_ARRAY_H

#include "base/buffer.h"
#include "sql/postgres/statement.h"

enum sql_array_type {
    SQL_ARRAY_FLAG = 1,
    SQL_ARRAY_BYTES,
    SQL_ARRAY_LONG,
    SQL_ARRAY_INT,
    SQL_ARRAY_TEXT,
    SQL_ARRAY_ROW /* location of a row: the block's number, and 16 bits for the index in the block */
};

struct sql_array {
    enum sql_array_type type;
    uint32_t count;
    bool has_values; /* at least one entry is neither 0 nor empty */
    struct buffer buffer;
};

void sql_array_init(struct sql_array *array, enum sql_array_type type);
void sql_array_fini(struct sql_array *array);
/* Removes all items and frees a large buffer. */
void sql_array_clear(struct sql_array *array);

void sql_array_number(struct sql_array *array, int64_t number);    /* FLAG, INT, LONG, ROW */
void sql_array_bytes(struct sql_array *array, struct slice bytes); /* BYTES, TEXT */

/* Adds the array as the next parameter, which points into the array. Returns false if out of
 * memory. */
bool sql_array_param(struct sql_array *array, struct sql_params *params);

#endif
