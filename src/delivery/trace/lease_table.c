#include "trace/lease_table.h"

#include <stdlib.h>

void lease_table_init(struct lease_table *table)
{
    *table = (struct lease_table){0};
    pthread_mutex_init(&table->lock, NULL);
}

/* Removes an entry and returns its span; the lock is held. */
static struct trace_span *remove_entry(struct lease_table *table, struct lease_entry *entry)
{
    struct trace_span *span = entry->span;
    lease_entries_remove(&table->entries, entry);
    atomic_fetch_sub(&table->count, 1);
    free(entry);
    return span;
}

void lease_table_fini(struct lease_table *table)
{
    struct lease_entry *entry;
    while ((entry = lease_entries_first(&table->entries)))
        trace_span_free(remove_entry(table, entry));
    lease_entries_fini(&table->entries);
    pthread_mutex_destroy(&table->lock);
}

bool lease_table_add(struct lease_table *table, struct slice lease, int64_t ends_us,
                     struct trace_span *span)
{
    struct lease_entry *entry = NULL;
    if (lease.len <= LEASE_TEXT_BYTES_MAX && atomic_load(&table->count) < LEASE_TABLE_MAX)
        entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    memcpy(entry->lease, lease.at, lease.len);
    entry->entry.key = slice_make(entry->lease, lease.len);
    entry->span = span;
    entry->ends_us = ends_us;
    pthread_mutex_lock(&table->lock);
    lease_entries_add(&table->entries, entry);
    atomic_fetch_add(&table->count, 1);
    pthread_mutex_unlock(&table->lock);
    return true;
}

struct trace_span *lease_table_take(struct lease_table *table, struct slice lease)
{
    pthread_mutex_lock(&table->lock);
    struct lease_entry *entry = lease_entries_find(&table->entries, lease);
    struct trace_span *span = entry ? remove_entry(table, entry) : NULL;
    pthread_mutex_unlock(&table->lock);
    return span;
}

void lease_table_extend(struct lease_table *table, struct slice lease, int64_t ends_us)
{
    pthread_mutex_lock(&table->lock);
    struct lease_entry *entry = lease_entries_find(&table->entries, lease);
    if (entry)
        entry->ends_us = ends_us;
    pthread_mutex_unlock(&table->lock);
}

void lease_table_note_error(struct lease_table *table, struct slice lease, struct slice error)
{
    pthread_mutex_lock(&table->lock);
    struct lease_entry *entry = lease_entries_find(&table->entries, lease);
    if (entry)
        trace_span_set_error(entry->span, error);
    pthread_mutex_unlock(&table->lock);
}

struct trace_span *lease_table_take_ended(struct lease_table *table, int64_t now_us,
                                          int64_t *next_us)
{
    struct trace_span *ended = NULL;
    *next_us = INT64_MAX;
    pthread_mutex_lock(&table->lock);
    for (struct lease_entry *entry = lease_entries_first(&table->entries), *next; entry;
         entry = next) {
        next = lease_entries_next(&table->entries, entry);
        if (entry->ends_us > now_us) {
            *next_us = entry->ends_us < *next_us ? entry->ends_us : *next_us;
            continue;
        }
        int64_t ends_us = entry->ends_us;
        struct trace_span *span = remove_entry(table, entry);
        span->end_us = ends_us;
        span->next = ended;
        ended = span;
    }
    pthread_mutex_unlock(&table->lock);
    return ended;
}
