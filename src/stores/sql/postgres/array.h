/*
 * array: parameters of a statement for many items: one array per parameter, in PostgreSQL's binary
 * format, with one entry per item.
 *
 * One thread. If memory runs out or an array grows beyond its limit, postgres_array_param returns false.
 */
#ifndef TARRY_SQL_POSTGRES_ARRAY_H
#define TARRY_SQL_POSTGRES_ARRAY_H

#include "base/buffer.h"
#include "sql/postgres/statement.h"

enum postgres_array_type {
    POSTGRES_ARRAY_FLAG = 1,
    POSTGRES_ARRAY_BYTES,
    POSTGRES_ARRAY_LONG,
    POSTGRES_ARRAY_INT,
    POSTGRES_ARRAY_TEXT,
    POSTGRES_ARRAY_ROW /* location of a row: the block's number, and 16 bits for the index in the block */
};

struct postgres_array {
    enum postgres_array_type type;
    uint32_t count;
    bool has_values; /* at least one entry is neither 0 nor empty */
    struct buffer buffer;
};

void postgres_array_init(struct postgres_array *array, enum postgres_array_type type);
void postgres_array_fini(struct postgres_array *array);
/* Removes all items and frees a large buffer. */
void postgres_array_clear(struct postgres_array *array);

void postgres_array_number(struct postgres_array *array, int64_t number); /* FLAG, INT, LONG, ROW */
void postgres_array_bytes(struct postgres_array *array, struct slice bytes); /* BYTES, TEXT */

/* Adds the array as the next parameter, which points into the array. Returns false if out of
 * memory. */
bool postgres_array_param(struct postgres_array *array, struct postgres_params *params);

#endif
