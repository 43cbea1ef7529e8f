/*
 * batch: items of many calls that go as one statement: arrays of their values, and whose they are.
 *
 * Items that name the same job keep their order: the second one goes in another batch, after all
 * that are open. One thread.
 */
#ifndef TARRY_SQL_POSTGRES_BATCH_H
#define TARRY_SQL_POSTGRES_BATCH_H

#include "base/vector.h"
#include "sql/postgres/array.h"

struct sql_call;

struct sql_item { /* of a call */
    struct sql_call *call;
    size_t index; /* of a take: how many jobs it wants */
};
VECTOR_DECLARE(sql_items, struct sql_item)

enum { SQL_BATCH_ARRAYS_MAX = 18 };

struct sql_batch { /* of one statement */
    struct sql_array arrays[SQL_BATCH_ARRAYS_MAX];
    size_t array_count;
    struct sql_items items;
};

enum { SQL_BATCH_KEYS = 8192 }; /* a power of two, more than twice the items of a turn */

/* Which jobs the open batches name: hashes, so another one is now and then taken for one of them. */
struct sql_batch_keys {
    uint64_t slots[SQL_BATCH_KEYS];
    size_t count;
};

/* `types`: a letter for each array: b flag, i int, l bigint, r row, t text, x bytea. */
void sql_batch_init(struct sql_batch *batch, const char *types);
void sql_batch_fini(struct sql_batch *batch);
void sql_batch_clear(struct sql_batch *batch);
/* The item's values follow, one for each array. False: out of memory. */
bool sql_batch_add(struct sql_batch *batch, struct sql_call *call, size_t index);
bool sql_batch_params(struct sql_batch *batch, struct sql_params *params);

/* False: it is there already, or there is no room for it: close the batches, and forget the keys. */
bool sql_batch_keys_add(struct sql_batch_keys *keys, uint64_t hash);
void sql_batch_keys_clear(struct sql_batch_keys *keys);

#endif
