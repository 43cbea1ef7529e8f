#include "sql/postgres/batch.h"

#include <assert.h>
#include <ctype.h>

/* ---- arrays ---- */

/* PostgreSQL's type numbers, which never change. */
static const uint32_t type_numbers[] = {
    [POSTGRES_ARRAY_FLAG] = 16, [POSTGRES_ARRAY_BYTES] = 17, [POSTGRES_ARRAY_LONG] = 20,
    [POSTGRES_ARRAY_INT] = 23,  [POSTGRES_ARRAY_TEXT] = 25,  [POSTGRES_ARRAY_ROW] = 27};
static const uint32_t widths[] = {[POSTGRES_ARRAY_FLAG] = 1,
                                  [POSTGRES_ARRAY_LONG] = 8,
                                  [POSTGRES_ARRAY_INT] = 4,
                                  [POSTGRES_ARRAY_ROW] = 6};

enum { ARRAY_BYTES_MAX = 64 << 20, KEPT_BYTES = 256 * 1024, HEADER_WORDS = 5, COUNT_WORD = 3 };

static void write_big_endian(char *at, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(number >> 8 * (bytes - 1 - i));
}

/* Writes the header: dimensions, has NULLs, type of the items, size, first index. */
static void array_begin(struct postgres_array *array)
{
    const uint32_t words[HEADER_WORDS] = {1, 0, type_numbers[array->type], 0, 1};
    char *at = buffer_reserve(&array->buffer, sizeof words);
    if (!at)
        return;
    for (size_t i = 0; i < HEADER_WORDS; i++)
        write_big_endian(at + 4 * i, words[i], 4);
    array->buffer.len += sizeof words;
    array->count = 0;
    array->has_values = false;
}

void postgres_array_init(struct postgres_array *array, enum postgres_array_type type)
{
    array->type = type;
    buffer_init(&array->buffer, ARRAY_BYTES_MAX);
    array_begin(array);
}

void postgres_array_fini(struct postgres_array *array)
{
    buffer_fini(&array->buffer);
}

void postgres_array_clear(struct postgres_array *array)
{
    buffer_clear(&array->buffer);
    buffer_clear_and_trim(&array->buffer, KEPT_BYTES);
    array_begin(array);
}

void postgres_array_number(struct postgres_array *array, int64_t number)
{
    uint32_t width = widths[array->type];
    char *at = buffer_reserve(&array->buffer, 4 + width);
    if (!at)
        return;
    write_big_endian(at, width, 4);
    write_big_endian(at + 4, (uint64_t)number, width);
    array->buffer.len += 4 + width;
    array->count++;
    array->has_values = array->has_values || number != 0;
}

void postgres_array_bytes(struct postgres_array *array, struct slice bytes)
{
    char *at = buffer_reserve(&array->buffer, 4 + bytes.len);
    if (!at)
        return;
    write_big_endian(at, bytes.len, 4);
    if (bytes.len)
        memcpy(at + 4, bytes.at, bytes.len);
    array->buffer.len += 4 + bytes.len;
    array->count++;
    array->has_values = array->has_values || bytes.len > 0;
}

bool postgres_array_param(struct postgres_array *array, struct postgres_params *params)
{
    if (array->buffer.failed)
        return false;
    write_big_endian(array->buffer.at + (size_t)4 * COUNT_WORD, array->count, 4);
    postgres_params_bytes(params, buffer_slice(&array->buffer));
    return true;
}

/* ---- batches ---- */

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

/* Returns the slot with the key, or the empty one for it. */
static size_t batch_keys_slot(const struct postgres_batch_keys *keys, uint64_t hash)
{
    size_t slot = hash & (POSTGRES_BATCH_KEYS - 1);
    while (keys->slots[slot] && keys->slots[slot] != hash)
        slot = (slot + 1) & (POSTGRES_BATCH_KEYS - 1);
    return slot;
}

bool postgres_batch_keys_have(const struct postgres_batch_keys *keys, uint64_t hash)
{
    return keys->slots[batch_keys_slot(keys, hash ? hash : 1)] != 0;
}

bool postgres_batch_keys_add(struct postgres_batch_keys *keys, uint64_t hash)
{
    hash = hash ? hash : 1;
    if (keys->count >= POSTGRES_BATCH_KEYS / 2)
        return false;
    size_t slot = batch_keys_slot(keys, hash);
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
