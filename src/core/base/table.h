/*
 * table: finds entries by a text, by its hash. Chained, intrusive, grows and never shrinks.
 *
 * A zeroed table is a valid empty one. An entry is embedded in what it names; entries and the bytes
 * of their keys are the caller's, and stay where they are while they are in the table. Find, add and
 * remove take constant time. Nothing can go wrong: out of memory only makes chains longer. One
 * thread, or the caller's lock.
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
    struct table_entry *next; /* of its bucket */
    uint64_t hash;            /* of the key */
    struct slice key;         /* the caller sets it before the entry is added */
};

struct table {
    struct table_entry **buckets; /* NULL: `only` is the one bucket */
    struct table_entry *only;
    size_t bucket_mask; /* how many buckets there are, a power of two, less one */
    size_t count;
};

/* Frees the buckets, not what is in them. The table is empty then. */
void table_fini(struct table *table);

/* Its key is not in the table yet. */
void table_add(struct table *table, struct table_entry *entry);

/* It is in the table. */
void table_remove(struct table *table, struct table_entry *entry);

/* Every entry once, in no order: the first, and the one after `entry`; NULL: there is no more. An
 * entry may be removed once the one after it is known; none is added meanwhile. */
struct table_entry *table_first(const struct table *table);
struct table_entry *table_next(const struct table *table, const struct table_entry *entry);

/* NULL: absent. */
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
 * for it. How many there are is `.table.count`. */
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
