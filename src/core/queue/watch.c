/* A table from a topic to the reactors that watch it. */
#include "queue/watch.h"

#include "base/table.h"

#include <stdlib.h>

struct watch {
    struct table_entry entry;
    uint64_t reactors; /* a bit each */
    char topic[];
};

TABLE_DECLARE(watches, struct watch, entry)

struct watch_table {
    struct watches watches;
};

struct watch_table *watch_table_new(void)
{
    return calloc(1, sizeof(struct watch_table));
}

static void watch_drop(struct watch_table *table, struct watch *watch)
{
    watches_remove(&table->watches, watch);
    free(watch);
}

void watch_table_free(struct watch_table *table)
{
    if (!table)
        return;
    for (struct watch *watch = watches_first(&table->watches), *next; watch; watch = next) {
        next = watches_next(&table->watches, watch);
        watch_drop(table, watch);
    }
    watches_fini(&table->watches);
    free(table);
}

/* Returns the watch of a topic, and creates it if necessary. NULL: out of memory. */
static struct watch *watch_need(struct watch_table *table, struct slice topic)
{
    struct watch *watch = watches_find(&table->watches, topic);
    if (watch || !(watch = calloc(1, sizeof *watch + topic.len)))
        return watch;
    memcpy(watch->topic, topic.at, topic.len);
    watch->entry.key = slice_make(watch->topic, topic.len);
    watches_add(&table->watches, watch);
    return watch;
}

bool watch_set(struct watch_table *table, struct slice topic, uint32_t reactor, bool on)
{
    struct watch *watch = on ? watch_need(table, topic) : watches_find(&table->watches, topic);
    uint64_t bit = UINT64_C(1) << reactor;
    if (!watch)
        return !on;
    watch->reactors = on ? watch->reactors | bit : watch->reactors & ~bit;
    if (!watch->reactors)
        watch_drop(table, watch);
    return true;
}

uint64_t watch_find(const struct watch_table *table, struct slice topic)
{
    const struct watch *watch =
        table->watches.table.count ? watches_find(&table->watches, topic) : NULL;
    return watch ? watch->reactors : 0;
}
