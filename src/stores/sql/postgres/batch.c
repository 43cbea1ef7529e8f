#include "sql/postgres/batch.h"

#include <assert.h>
#include <ctype.h>

static enum postgres_array_type type_of(char letter)
{
    switch (letter) {
    case 'b':
        return POSTGRES_ARRAY_FLAG;
    case 'i':
        return POSTGRES_ARRAY_INT;
    case 'l':
        return POSTGRES_ARRAY_LONG;
    case 'r':
        return POSTGRES_ARRAY_ROW;
    case 't':
        return POSTGRES_ARRAY_TEXT;
    default:
        return POSTGRES_ARRAY_BYTES;
    }
}

void postgres_batch_init(struct postgres_batch *batch, const char *types)
{
    batch->array_count = batch->group_array_count = batch->group_count = 0;
    batch->omitted = 0;
    for (const char *at = types; *at; at++) {
        if (*at == ' ') {
            batch->group_array_count = batch->array_count;
            continue;
        }
        assert(batch->array_count < POSTGRES_BATCH_ARRAYS_MAX);
        if (isupper((unsigned char)*at))
            batch->omitted |= 1U << batch->array_count;
        postgres_array_init(&batch->arrays[batch->array_count++],
                            type_of((char)tolower((unsigned char)*at)));
    }
}

void postgres_batch_fini(struct postgres_batch *batch)
{
    for (size_t i = 0; i < batch->array_count; i++)
        postgres_array_fini(&batch->arrays[i]);
    postgres_items_fini(&batch->items);
}

void postgres_batch_clear(struct postgres_batch *batch)
{
    for (size_t i = 0; i < batch->array_count; i++)
        postgres_array_clear(&batch->arrays[i]);
    batch->items.count = batch->group_count = 0;
}

bool postgres_batch_add(struct postgres_batch *batch, struct sql_call *call, size_t index)
{
    return postgres_items_add(&batch->items, (struct postgres_item){.call = call, .index = index});
}

size_t postgres_batch_add_group(struct postgres_batch *batch)
{
    return ++batch->group_count;
}

bool postgres_batch_params(struct postgres_batch *batch, struct postgres_params *params)
{
    bool is_good = true;
    for (size_t i = 0; i < batch->array_count && is_good; i++) {
        struct postgres_array *array = &batch->arrays[i];
        size_t count = i < batch->group_array_count ? batch->group_count : batch->items.count;
        assert(array->buffer.failed || array->count == count);
        if (batch->omitted & 1U << i && !array->has_values && !array->buffer.failed)
            postgres_params_null(params);
        else
            is_good = postgres_array_param(array, params);
    }
    return is_good;
}

bool postgres_batch_keys_add(struct postgres_batch_keys *keys, uint64_t hash)
{
    size_t slot = hash & (POSTGRES_BATCH_KEYS - 1);
    hash = hash ? hash : 1;
    if (keys->count >= POSTGRES_BATCH_KEYS / 2)
        return false;
    while (keys->slots[slot] && keys->slots[slot] != hash)
        slot = (slot + 1) & (POSTGRES_BATCH_KEYS - 1);
    if (keys->slots[slot])
        return false;
    keys->slots[slot] = hash;
    keys->count++;
    return true;
}

void postgres_batch_keys_clear(struct postgres_batch_keys *keys)
{
    if (keys->count)
        memset(keys, 0, sizeof *keys);
}
