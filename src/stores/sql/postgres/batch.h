/*
 * batch: items of many calls that go as one statement: arrays of their values, and whose they are.
 * What many items have in common may stand in arrays of its own, with an entry for each group of them.
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
    size_t index;     /* of a take: how many jobs it wants */
    size_t group;     /* from 1 on; 0: of none */
    bool is_answered; /* by a row of its own */
};
VECTOR_DECLARE(sql_items, struct sql_item)

enum { SQL_BATCH_ARRAYS_MAX = 19 };

struct sql_batch { /* of one statement */
    struct sql_array arrays[SQL_BATCH_ARRAYS_MAX];
    size_t array_count;
    size_t group_array_count; /* the first ones are of groups */
    size_t group_count;
    uint32_t omitted; /* a bit for each array that is NULL where it has no values */
    struct sql_items items;
};

enum { SQL_BATCH_KEYS = 8192 }; /* a power of two, more than twice the items of a turn */

/* Which jobs the open batches name: hashes, so another one is now and then taken for one of them. */
struct sql_batch_keys {
    uint64_t slots[SQL_BATCH_KEYS];
    size_t count;
};

/* `types`: a letter for each array: b flag, i int, l bigint, r row, t text, x bytea; a capital: NULL where all
 * entries are 0 or empty. Those before a blank are of groups. */
void sql_batch_init(struct sql_batch *batch, const char *types);
void sql_batch_fini(struct sql_batch *batch);
void sql_batch_clear(struct sql_batch *batch);
/* The item's values follow, one for each array. False: out of memory. */
bool sql_batch_add(struct sql_batch *batch, struct sql_call *call, size_t index);
/* A group more, whose number, from 1 on, comes out; its values follow, one for each of its arrays. */
size_t sql_batch_add_group(struct sql_batch *batch);
bool sql_batch_params(struct sql_batch *batch, struct sql_params *params);

/* False: it is there already, or there is no room for it: close the batches, and forget the keys. */
bool sql_batch_keys_add(struct sql_batch_keys *keys, uint64_t hash);
void sql_batch_keys_clear(struct sql_batch_keys *keys);

#endif
