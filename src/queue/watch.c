/* A chained hash table. */
#include "queue/watch.h"
#include "base/hash.h"

#include <stdlib.h>

struct watch {
    struct watch *next;
    uint64_t reactors; /* a bit each */
    size_t topic_bytes;
    char topic[];
};

struct watch_table {
    struct watch **buckets;
    size_t bucket_count, count;
};

struct watch_table *watch_table_new(void)
{
    struct watch_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->bucket_count = 64;
    table->buckets = calloc(table->bucket_count, sizeof *table->buckets);
    if (!table->buckets) {
        free(table);
        return NULL;
    }
    return table;
}

void watch_table_free(struct watch_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->bucket_count; i++)
        for (struct watch *watch = table->buckets[i], *next; watch; watch = next) {
            next = watch->next;
            free(watch);
        }
    free(table->buckets);
    free(table);
}

static struct watch **link_of(const struct watch_table *table, struct slice topic)
{
    struct watch **link = &table->buckets[hash_64(topic.at, topic.len) & (table->bucket_count - 1)];
    while (*link && !slice_equals(slice_make((*link)->topic, (*link)->topic_bytes), topic))
        link = &(*link)->next;
    return link;
}

static void grow(struct watch_table *table)
{
    struct watch **old = table->buckets;
    size_t old_count = table->bucket_count;
    struct watch **buckets = calloc(old_count * 2, sizeof *buckets);
    if (!buckets)
        return; /* longer chains will do */
    table->buckets = buckets;
    table->bucket_count = old_count * 2;
    for (size_t i = 0; i < old_count; i++)
        for (struct watch *watch = old[i], *next; watch; watch = next) {
            next = watch->next;
            struct watch **link = link_of(table, slice_make(watch->topic, watch->topic_bytes));
            watch->next = NULL;
            *link = watch;
        }
    free(old);
}

static struct watch **need(struct watch_table *table, struct slice topic)
{
    struct watch **link = link_of(table, topic);
    if (*link)
        return link;
    struct watch *watch = calloc(1, sizeof *watch + topic.len);
    if (!watch)
        return NULL;
    watch->topic_bytes = topic.len;
    memcpy(watch->topic, topic.at, topic.len);
    *link = watch;
    if (++table->count > table->bucket_count) {
        grow(table);
        link = link_of(table, topic);
    }
    return link;
}

static void drop(struct watch_table *table, struct watch **link)
{
    struct watch *gone = *link;
    *link = gone->next;
    table->count--;
    free(gone);
}

bool watch_set(struct watch_table *table, struct slice topic, uint32_t reactor, bool on)
{
    struct watch **link = on ? need(table, topic) : link_of(table, topic);
    uint64_t bit = 1ull << reactor;
    if (!link)
        return false;
    if (on)
        (*link)->reactors |= bit;
    else if (*link && !((*link)->reactors &= ~bit))
        drop(table, link);
    return true;
}

uint64_t watch_find(const struct watch_table *table, struct slice topic)
{
    const struct watch *watch = table->count ? *link_of(table, topic) : NULL;
    return watch ? watch->reactors : 0;
}
