#include "sql/postgres/batch.h"

#include <assert.h>
#include <ctype.h>

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
    batch->array_count = batch->group_array_count = batch->group_count = 0;
    batch->omitted = 0;
    for (const char *at = types; *at; at++) {
        if (*at == ' ') {
            batch->group_array_count = batch->array_count;
            continue;
        }
        assert(batch->array_count < SQL_BATCH_ARRAYS_MAX);
        if (isupper((unsigned char)*at))
            batch->omitted |= 1U << batch->array_count;
        sql_array_init(&batch->arrays[batch->array_count++],
                       type_of((char)tolower((unsigned char)*at)));
    }
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
    batch->items.count = batch->group_count = 0;
}

bool sql_batch_add(struct sql_batch *batch, struct sql_call *call, size_t index)
{
    return sql_items_add(&batch->items, (struct sql_item){.call = call, .index = index});
}

size_t sql_batch_add_group(struct sql_batch *batch)
{
    return ++batch->group_count;
}

bool sql_batch_params(struct sql_batch *batch, struct sql_params *params)
{
    bool is_good = true;
    for (size_t i = 0; i < batch->array_count && is_good; i++) {
        struct sql_array *array = &batch->arrays[i];
        size_t count = i < batch->group_array_count ? batch->group_count : batch->items.count;
        assert(array->buffer.failed || array->count == count);
        if (batch->omitted & 1U << i && !array->has_values && !array->buffer.failed)
            sql_params_null(params);
        else
            is_good = sql_array_param(array, params);
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
