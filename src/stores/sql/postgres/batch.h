/*
 * batch: items of many calls that are sent as one statement: arrays of their values, and the call
 * of each item. Values that many items have in common can be stored in separate arrays, with one
 * entry per group of items.
 *
 * Items that name the same job keep their order: the second one goes into another batch, after all
 * open ones. One thread.
 */
#ifndef TARRY_SQL_POSTGRES_BATCH_H
#define TARRY_SQL_POSTGRES_BATCH_H

#include "base/buffer.h"
#include "base/vector.h"
#include "sql/postgres/statement.h"

/* ---- arrays ---- */

/*
 * Parameters of a statement for many items: one array per parameter, in PostgreSQL's binary
 * format, with one entry per item.
 *
 * One thread. If memory runs out or an array grows beyond its limit, postgres_array_param returns false.
 */
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

/* ---- batches ---- */

struct sql_call;

struct postgres_item { /* An item of a call. */
    struct sql_call *call;
    size_t index;     /* for a take: the maximum number of jobs */
    size_t group;     /* 1 and above; 0: no group */
    bool is_answered; /* by a row of its own */
};
VECTOR_DECLARE(postgres_items, struct postgres_item)

enum { POSTGRES_BATCH_ARRAYS_MAX = 25 };

struct postgres_batch { /* The parameters of one statement. */
    struct postgres_array arrays[POSTGRES_BATCH_ARRAYS_MAX];
    size_t array_count;
    size_t group_array_count; /* number of arrays of groups, which come first */
    size_t group_count;
    uint32_t omitted; /* a bit for each array that is sent as NULL if it has no values */
    struct postgres_items items;
};

enum {
    POSTGRES_BATCH_KEYS = 8192
}; /* a power of two, more than twice the items of a transaction */

/* Set of the jobs in open batches, by hash. A collision makes an unrelated job appear as
 * contained. */
struct postgres_batch_keys {
    uint64_t slots[POSTGRES_BATCH_KEYS];
    size_t count;
};

/* Initializes a batch. `types` has one letter per array: b flag, i int, l bigint, r row, t text, x
 * bytea. A capital letter means that the array is NULL if all entries are 0 or empty. Arrays before
 * a blank belong to groups. */
void postgres_batch_init(struct postgres_batch *batch, const char *types);
void postgres_batch_fini(struct postgres_batch *batch);
void postgres_batch_clear(struct postgres_batch *batch);
/* Adds an item. The caller then appends its value to each array. Returns false if out of memory. */
bool postgres_batch_add(struct postgres_batch *batch, struct sql_call *call, size_t index);
/* Adds a group and returns its number, counted from 1. The caller then appends its value to each of
 * the groups' arrays. */
size_t postgres_batch_add_group(struct postgres_batch *batch);
bool postgres_batch_params(struct postgres_batch *batch, struct postgres_params *params);

/* Adds a key. Returns false if it is already contained, or if the set is full. The caller must then
 * send the batches and clear the keys. */
bool postgres_batch_keys_add(struct postgres_batch_keys *keys, uint64_t hash);
bool postgres_batch_keys_have(const struct postgres_batch_keys *keys, uint64_t hash);
void postgres_batch_keys_clear(struct postgres_batch_keys *keys);

#endif
