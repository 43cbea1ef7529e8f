#include "base/hash.h"
#include "store/run_private.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Names lie one after the other as they are stored; a table of open addressing, never more than
 * half full, leads to them.
 */

enum { TOPICS_FIRST = 16 };

void run_topics_init(struct run_topics *topics)
{
    *topics = (struct run_topics){0};
    buffer_init(&topics->names, UINT32_MAX);
}

void run_topics_fini(struct run_topics *topics)
{
    buffer_fini(&topics->names);
    free(topics->at);
    free(topics->table);
    run_topics_init(topics);
}

struct slice run_topics_name(const struct run_topics *topics, uint32_t number)
{
    const char *at = topics->names.at + topics->at[number];

    return slice_make(at + 1, (unsigned char)*at);
}

/* Where in the table the name is, or would be. */
static uint32_t place_of(const struct run_topics *topics, struct slice name)
{
    uint32_t mask = topics->table_cap - 1, at = (uint32_t)hash_64(name.at, name.len) & mask;

    while (topics->table[at] && !slice_equals(run_topics_name(topics, topics->table[at] - 1), name))
        at = (at + 1) & mask;
    return at;
}

uint32_t run_topics_find(const struct run_topics *topics, struct slice name)
{
    return topics->count ? topics->table[place_of(topics, name)] - 1 : UINT32_MAX;
}

static bool grow(struct run_topics *topics)
{
    uint32_t cap = topics->cap ? topics->cap * 2 : TOPICS_FIRST;
    uint32_t *at = realloc(topics->at, cap * sizeof *at), *table;

    if (!at)
        return false;
    topics->at = at;
    table = calloc((size_t)cap * 2, sizeof *table);
    if (!table)
        return false;
    free(topics->table);
    topics->table = table;
    topics->table_cap = cap * 2;
    topics->cap = cap;
    for (uint32_t number = 0; number < topics->count; number++)
        table[place_of(topics, run_topics_name(topics, number))] = number + 1;
    return true;
}

int run_topics_add(struct run_topics *topics, struct slice name, uint32_t *number)
{
    size_t at = topics->names.len;

    assert(name.len <= RUN_TOPIC_BYTES_MAX);
    *number = run_topics_find(topics, name);
    if (*number != UINT32_MAX)
        return 0;
    if (topics->count == RUN_TOPICS_MAX)
        return -EFBIG;
    if (topics->count == topics->cap && !grow(topics))
        return -ENOMEM;
    if (!buffer_reserve(&topics->names, name.len + 1))
        return -ENOMEM;
    buffer_append_byte(&topics->names, (char)(unsigned char)name.len);
    buffer_append_slice(&topics->names, name);
    topics->table[place_of(topics, name)] = topics->count + 1;
    topics->at[topics->count] = (uint32_t)at;
    *number = topics->count++;
    return 0;
}

int run_topics_parse(struct run_topics *topics, struct slice bytes, uint32_t count)
{
    size_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        size_t len = at < bytes.len ? (unsigned char)bytes.at[at] : 0;
        uint32_t number;
        int result;

        if (at >= bytes.len || bytes.len - at - 1 < len)
            return -EBADMSG;
        result = run_topics_add(topics, slice_make(bytes.at + at + 1, len), &number);
        if (result < 0)
            return result;
        if (number != i) /* twice the same */
            return -EBADMSG;
        at += len + 1;
    }
    return at == bytes.len ? 0 : -EBADMSG;
}
