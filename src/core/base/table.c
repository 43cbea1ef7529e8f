#include "base/table.h"

#include <assert.h>
#include <stdlib.h>

enum { TABLE_BUCKETS_FIRST = 16 };

static struct table_entry **table_bucket(struct table *table, uint64_t hash)
{
    return table->buckets ? &table->buckets[hash & table->bucket_mask] : &table->only;
}

static void table_link(struct table *table, struct table_entry *entry)
{
    struct table_entry **bucket = table_bucket(table, entry->hash);
    entry->next = *bucket;
    *bucket = entry;
}

/* Doubles the buckets, or keeps them if there is no memory. */
static void table_grow(struct table *table)
{
    struct table old = *table;
    size_t count = old.buckets ? (old.bucket_mask + 1) * 2 : TABLE_BUCKETS_FIRST;
    struct table_entry **buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return;
    table->buckets = buckets;
    table->bucket_mask = count - 1;
    table->only = NULL;
    for (struct table_entry *entry = table_first(&old), *next; entry; entry = next) {
        next = table_next(&old, entry);
        table_link(table, entry);
    }
    free(old.buckets);
}

void table_add(struct table *table, struct table_entry *entry)
{
    if (table->count > table->bucket_mask)
        table_grow(table);
    entry->hash = hash_64(entry->key.at, entry->key.len);
    table_link(table, entry);
    table->count++;
}

void table_remove(struct table *table, struct table_entry *entry)
{
    struct table_entry **link = table_bucket(table, entry->hash);
    while (*link != entry) {
        assert(*link);
        link = &(*link)->next;
    }
    *link = entry->next;
    table->count--;
}

/* Returns the first entry of the buckets from `at` on. */
static struct table_entry *table_from(const struct table *table, size_t at)
{
    for (; table->buckets && at <= table->bucket_mask; at++)
        if (table->buckets[at])
            return table->buckets[at];
    return NULL;
}

struct table_entry *table_first(const struct table *table)
{
    return table->buckets ? table_from(table, 0) : table->only;
}

struct table_entry *table_next(const struct table *table, const struct table_entry *entry)
{
    return entry->next ? entry->next : table_from(table, (entry->hash & table->bucket_mask) + 1);
}

void table_fini(struct table *table)
{
    free(table->buckets);
    *table = (struct table){0};
}
