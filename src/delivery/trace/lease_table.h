/*
 * lease_table: spans of jobs that are leased to consumers, found by lease until they are answered.
 * Bounded.
 *
 * Any thread. Times are microseconds of the wall clock.
 */
#ifndef TARRY_TRACE_LEASE_TABLE_H
#define TARRY_TRACE_LEASE_TABLE_H

#include "base/table.h"
#include "trace/span.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LEASE_TABLE_MAX = 10000, LEASE_TEXT_BYTES_MAX = 64 };

struct lease_entry { /* private to the table */
    struct table_entry entry;
    struct trace_span *span;
    int64_t ends_us;
    char lease[LEASE_TEXT_BYTES_MAX];
};

TABLE_DECLARE(lease_entries, struct lease_entry, entry)

struct lease_table {
    pthread_mutex_t lock;
    struct lease_entries entries;
    atomic_uint count;
};

void lease_table_init(struct lease_table *table);
/* Frees all remaining spans. */
void lease_table_fini(struct lease_table *table);

/* Adds a span whose lease ends at that time. Returns false if there is no room; the calling code
 * then keeps the span. */
bool lease_table_add(struct lease_table *table, struct slice lease, int64_t ends_us,
                     struct trace_span *span);
/* Removes and returns the span of a lease, or NULL. */
struct trace_span *lease_table_take(struct lease_table *table, struct slice lease);
/* Extends the lease of a span. */
void lease_table_extend(struct lease_table *table, struct slice lease, int64_t ends_us);
/* Stores the reason for giving the lease back, before that has succeeded. */
void lease_table_note_error(struct lease_table *table, struct slice lease, struct slice error);

/* Removes the spans whose leases have ended, linked by `next`, with end_us set. *next_us is the
 * next end of a lease; INT64_MAX if the table is empty. */
struct trace_span *lease_table_take_ended(struct lease_table *table, int64_t now_us,
                                          int64_t *next_us);

static inline bool lease_table_is_empty(struct lease_table *table)
{
    return atomic_load_explicit(&table->count, memory_order_relaxed) == 0;
}

#endif
