#include "sql/postgres/batch.h"

#include <assert.h>

static enum sql_array_type type_of(char letter)
{
    switch (letter) {
    case 'b':
        return SQL_ARRAY_FLAG;
    case 'i':
        return SQL_ARRAY_INT;
    case 'l':
        return SQL_ARRAY_LONG;
    case 'r':
        return SQL_ARRAY_ROW;
    case 't':
        return SQL_ARRAY_TEXT;
    default:
        return SQL_ARRAY_BYTES;
    }
}

void sql_batch_init(struct sql_batch *batch, const char *types)
{
    batch->array_count = strlen(types);
    assert(batch->array_count <= SQL_BATCH_ARRAYS_MAX);
    for (size_t i = 0; i < batch->array_count; i++)
        sql_array_init(&batch->arrays[i], type_of(types[i]));
}

void sql_batch_fini(struct sql_batch *batch)
{
    for (size_t i = 0; i < batch->array_count; i++)
        sql_array_fini(&batch->arrays[i]);
    sql_items_fini(&batch->items);
}

void sql_batch_clear(struct sql_batch *batch)
{
    for (size_t i = 0; i < batch->array_count; i++)
        sql_array_clear(&batch->arrays[i]);
    batch->items.count = 0;
}

bool sql_batch_add(struct sql_batch *batch, struct sql_call *call, size_t index)
{
    return sql_items_add(&batch->items, (struct sql_item){.call = call, .index = index});
}

bool sql_batch_params(struct sql_batch *batch, struct sql_params *params)
{
    bool is_good = true;
    for (size_t i = 0; i < batch->array_count && is_good; i++) {
        assert(batch->arrays[i].buffer.failed || batch->arrays[i].count == batch->items.count);
        is_good = sql_array_param(&batch->arrays[i], params);
    }
    return is_good;
}

bool sql_batch_keys_add(struct sql_batch_keys *keys, uint64_t hash)
{
    size_t slot = hash & (SQL_BATCH_KEYS - 1);
    hash = hash ? hash : 1;
    if (keys->count >= SQL_BATCH_KEYS / 2)
        return false;
    while (keys->slots[slot] && keys->slots[slot] != hash)
        slot = (slot + 1) & (SQL_BATCH_KEYS - 1);
    if (keys->slots[slot])
        return false;
    keys->slots[slot] = hash;
    keys->count++;
    return true;
}

void sql_batch_keys_clear(struct sql_batch_keys *keys)
{
    if (keys->count)
        memset(keys, 0, sizeof *keys);
}
