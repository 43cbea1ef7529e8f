/*
 * lease: the token of a lease, as text: the location of the job's row, the number of the delivery,
 * and a checksum that only this store can compute. Pure.
 */
#ifndef TARRY_SQL_LEASE_H
#define TARRY_SQL_LEASE_H

#include "base/heap.h"
#include "base/mac.h"
#include "base/table.h"
#include "queue/queue.h"

#include <stdint.h>

enum { SQL_LEASE_TEXT_BYTES = 59 };

/* Identifies one delivery of one row and is never reused. `level`, the priority, is below
 * 2^16, the other numbers below 2^48. */
struct sql_lease {
    uint32_t topic, level;
    int64_t due_ms, taken_ms;
    uint64_t sequence, delivery;
    uint64_t row; /* a hint: location of the row when the job was taken; 0: unknown */
};

void sql_lease_emit(char out[SQL_LEASE_TEXT_BYTES], const struct mac_key *key,
                    const struct sql_lease *lease);
/* Returns false if this store did not issue the token. */
bool sql_lease_parse(struct slice text, const struct mac_key *key, struct sql_lease *out);

/* Returns the delivery that a change requires as the last one of its job, taken from the change's
 * lease if it has one. Returns 0 if the change does not require any. */
uint64_t sql_change_delivery(const struct queue_change *change, const struct mac_key *key);

/* ---- leases whose ends this server watches ---- */

/*
 * The leases whose ends this server watches, sorted by their ends.
 */
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
