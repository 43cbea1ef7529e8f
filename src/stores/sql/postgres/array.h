/*
 * array: parameters of a statement that carries many items: an array for each, in the binary form
 * of PostgreSQL, with an entry for each item.
 *
 * One thread. What can go wrong: memory runs out, or an array grows above its ceiling: then
 * sql_array_params answers false.
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
    SQL_ARRAY_ROW /* where a row lies: the block's number, 16 bits for its place there */
};

struct sql_array {
    enum sql_array_type type;
    uint32_t count;
    bool has_values; /* an entry is neither 0 nor empty */
    struct buffer buffer;
};

void sql_array_init(struct sql_array *array, enum sql_array_type type);
void sql_array_fini(struct sql_array *array);
/* No items; a large buffer is given back. */
void sql_array_clear(struct sql_array *array);

void sql_array_number(struct sql_array *array, int64_t number);    /* FLAG, INT, LONG, ROW */
void sql_array_bytes(struct sql_array *array, struct slice bytes); /* BYTES, TEXT */

/* As the next parameter, which points into the array. False: out of memory. */
bool sql_array_param(struct sql_array *array, struct sql_params *params);

#endif
