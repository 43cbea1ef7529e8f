/*
 * table: a hash table that finds entries by a text. Chained and intrusive; grows and never shrinks.
 *
 * A zeroed table is valid and empty. An entry is embedded in the item that it identifies. The
 * caller owns entries and the bytes of their keys, which must not move while they are in the table.
 * Find, add and remove take constant time. They cannot fail: out of memory only makes chains
 * longer. One thread, or the caller's lock.
 *
 *     struct visitor { struct table_entry entry; ... };
 *     TABLE_DECLARE(visitors, struct visitor, entry)
 *
 *     struct visitors here = {0};
 *     visitor->entry.key = slice_of(visitor->name);
 *     visitors_add(&here, visitor);
 *     struct visitor *found = visitors_find(&here, slice_of("Ann"));
 */
#ifndef TARRY_BASE_TABLE_H
#define TARRY_BASE_TABLE_H

#include "base/hash.h"

struct table_entry {
    struct table_entry *next; /* next in its bucket */
    uint64_t hash;            /* of the key */
    struct slice key;         /* set by the caller before the entry is added */
};

struct table {
    struct table_entry **buckets; /* NULL: `only` is the single bucket */
    struct table_entry *only;
    size_t bucket_mask; /* number of buckets, a power of two, minus one */
    size_t count;
};

/* Frees the buckets, not the entries. The table is then empty. */
void table_fini(struct table *table);

/* Adds an entry. Its key must not be in the table. */
void table_add(struct table *table, struct table_entry *entry);

/* Removes an entry, which must be in the table. */
void table_remove(struct table *table, struct table_entry *entry);

/* Iterates over every entry once, in no particular order: the first, and the one after `entry`;
 * NULL at the end. An entry may be removed once the one after it has been fetched. No entry may be
 * added meanwhile. */
struct table_entry *table_first(const struct table *table);
struct table_entry *table_next(const struct table *table, const struct table_entry *entry);

/* Returns the entry, or NULL if absent. */
static inline struct table_entry *table_find(const struct table *table, struct slice key)
{
    uint64_t hash = hash_64(key.at, key.len);
    struct table_entry *entry =
        table->buckets ? table->buckets[hash & table->bucket_mask] : table->only;
    while (entry && (entry->hash != hash || !slice_equals(entry->key, key)))
        entry = entry->next;
    return entry;
}

/* Declares `struct NAME`, a table of TYPE whose entry is the member MEMBER, and the functions above
 * for it. The number of entries is `.table.count`. */
#define TABLE_DECLARE(NAME, TYPE, MEMBER)                                                          \
    struct NAME {                                                                                  \
        struct table table;                                                                        \
    };                                                                                             \
    static inline __attribute__((unused)) TYPE *NAME##_of(struct table_entry *entry)               \
    {                                                                                              \
        return entry ? (TYPE *)(void *)((char *)entry - offsetof(TYPE, MEMBER)) : NULL;            \
    }                                                                                              \
    static inline __attribute__((unused))                                                          \
    TYPE *NAME##_find(const struct NAME *in, struct slice key)                                     \
    {                                                                                              \
        return NAME##_of(table_find(&in->table, key));                                             \
    }                                                                                              \
    static inline __attribute__((unused)) void NAME##_add(struct NAME *to, TYPE *item)             \
    {                                                                                              \
        table_add(&to->table, &item->MEMBER);                                                      \
    }                                                                                              \
    static inline __attribute__((unused)) void NAME##_remove(struct NAME *from, TYPE *item)        \
    {                                                                                              \
        table_remove(&from->table, &item->MEMBER);                                                 \
    }                                                                                              \
    static inline __attribute__((unused)) TYPE *NAME##_first(const struct NAME *in)                \
    {                                                                                              \
        return NAME##_of(table_first(&in->table));                                                 \
    }                                                                                              \
    static inline __attribute__((unused))                                                          \
    TYPE *NAME##_next(const struct NAME *in, const TYPE *item)                                     \
    {                                                                                              \
        return NAME##_of(table_next(&in->table, &item->MEMBER));                                   \
    }                                                                                              \
    static inline __attribute__((unused)) void NAME##_fini(struct NAME *table)                     \
    {                                                                                              \
        table_fini(&table->table);                                                                 \
    }

#endif
