/*
 * lease: the token of a lease, as text: where the job's row lies, which delivery it is, and a check
 * that only this store can make. Pure.
 */
#ifndef TARRY_SQL_LEASE_H
#define TARRY_SQL_LEASE_H

#include "base/mac.h"
#include "queue/queue.h"

#include <stdint.h>

enum { SQL_LEASE_TEXT_BYTES = 59 };

/* Names one delivery of one row, and is never used again. A lane is below 2^16, the other numbers
 * below 2^48. */
struct sql_lease {
    uint32_t topic, lane;
    int64_t due_ms, taken_ms;
    uint64_t sequence, delivery;
    uint64_t row; /* a hint: where the row lay when the job was taken; 0: not known */
};

void sql_lease_emit(char out[SQL_LEASE_TEXT_BYTES], const struct mac_key *key,
                    const struct sql_lease *lease);
/* False: this store has never given it. */
bool sql_lease_parse(struct slice text, const struct mac_key *key, struct sql_lease *out);

/* The last delivery that a change asks of its job: by its lease where it has one. 0: it asks for none. */
uint64_t sql_change_delivery(const struct queue_change *change, const struct mac_key *key);

#endif
