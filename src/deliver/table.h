/* table: text to entry, by hash. Embed the entry; its key is the owner's memory. One thread. */
#ifndef TARRY_DELIVER_TABLE_H
#define TARRY_DELIVER_TABLE_H

#include "base/hash.h"

enum { TABLE_BUCKETS = 1024 };

struct table_entry {
    struct table_entry *next;
    struct slice key;
};

struct table {
    struct table_entry *buckets[TABLE_BUCKETS];
    size_t count;
};

static inline struct table_entry **table_bucket(struct table *table, struct slice key)
{
    return &table->buckets[hash_64(key.at, key.len) % TABLE_BUCKETS];
}

/* NULL: absent. */
static inline struct table_entry *table_find(struct table *table, struct slice key)
{
    struct table_entry *entry = *table_bucket(table, key);
    while (entry && !slice_equals(entry->key, key))
        entry = entry->next;
    return entry;
}

/* Its key is not in it yet. */
static inline void table_add(struct table *table, struct table_entry *entry)
{
    struct table_entry **bucket = table_bucket(table, entry->key);
    entry->next = *bucket;
    *bucket = entry;
    table->count++;
}

static inline void table_remove(struct table *table, struct table_entry *entry)
{
    struct table_entry **link = table_bucket(table, entry->key);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    table->count--;
}

#endif
