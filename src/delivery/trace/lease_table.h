/*
 * lease_table: spans of jobs that are with consumers, found by their leases until they are answered. Bounded.
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

struct lease_entry { /* the table's own */
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
/* Frees what is left in it. */
void lease_table_fini(struct lease_table *table);

/* The lease ends then. False: there is no room, and the span stays the caller's. */
bool lease_table_add(struct lease_table *table, struct slice lease, int64_t ends_us,
                     struct trace_span *span);
/* NULL: there is none of this lease. */
struct trace_span *lease_table_take(struct lease_table *table, struct slice lease);
/* The lease ends later. */
void lease_table_extend(struct lease_table *table, struct slice lease, int64_t ends_us);
/* Why it is about to be given back; the span keeps it in case that goes well. */
void lease_table_note_error(struct lease_table *table, struct slice lease, struct slice error);

/* Those that have ended, linked by `next`, each with its end as end_us. *next_us is when the next one
 * ends; INT64_MAX: there is none. */
struct trace_span *lease_table_take_ended(struct lease_table *table, int64_t now_us,
                                          int64_t *next_us);

static inline bool lease_table_is_empty(struct lease_table *table)
{
    return atomic_load_explicit(&table->count, memory_order_relaxed) == 0;
}

#endif
