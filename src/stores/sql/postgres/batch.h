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

#include "base/vector.h"
#include "sql/postgres/array.h"

struct sql_call;

struct postgres_item { /* An item of a call. */
    struct sql_call *call;
    size_t index;     /* for a take: the maximum number of jobs */
    size_t group;     /* 1 and above; 0: no group */
    bool is_answered; /* by a row of its own */
};
VECTOR_DECLARE(postgres_items, struct postgres_item)

enum { POSTGRES_BATCH_ARRAYS_MAX = 19 };

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
void postgres_batch_keys_clear(struct postgres_batch_keys *keys);

#endif
