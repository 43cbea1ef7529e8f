/*
 * hold: the leases whose ends this server watches, sorted by their ends.
 */
#ifndef TARRY_SQL_HOLD_H
#define TARRY_SQL_HOLD_H

#include "base/heap.h"
#include "base/table.h"
#include "sql/lease.h"

struct sql_held {
    struct table_entry entry; /* keyed by delivery */
    struct sql_lease lease;
    int64_t until_ms;
    size_t index;
};

static inline bool sql_held_before(struct sql_held *const *a, struct sql_held *const *b)
{
    return (*a)->until_ms < (*b)->until_ms;
}
static inline void sql_held_placed(struct sql_held **held, size_t index)
{
    (*held)->index = index;
}
HEAP_DECLARE(sql_ends, struct sql_held *, sql_held_before, sql_held_placed)
TABLE_DECLARE(sql_helds, struct sql_held, entry)

struct sql_watched { /* Watched leases; empty if zeroed. */
    struct sql_ends ends;
    struct sql_helds by_delivery;
};

/* Watches a lease until `until_ms`, or stops watching it if that is 0. Returns false if out of
 * memory; the lease is then not watched. */
bool sql_watched_set(struct sql_watched *watched, const struct sql_lease *lease, int64_t until_ms);
/* Returns the first end, or INT64_MAX if there are no leases. */
int64_t sql_watched_next(const struct sql_watched *watched);
/* Removes the first lease if it has ended by `now_ms`. */
bool sql_watched_take(struct sql_watched *watched, int64_t now_ms, struct sql_lease *out);
void sql_watched_fini(struct sql_watched *watched);

#endif
