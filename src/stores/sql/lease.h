/*
 * lease: the token of a lease, as text: the location of the job's row, the number of the delivery,
 * and a checksum that only this store can compute. Pure.
 */
#ifndef TARRY_SQL_LEASE_H
#define TARRY_SQL_LEASE_H

#include "base/mac.h"
#include "queue/queue.h"

#include <stdint.h>

enum { SQL_LEASE_TEXT_BYTES = 59 };

/* Identifies one delivery of one row and is never reused. `lane`, a priority partition, is below
 * 2^16, the other numbers below 2^48. */
struct sql_lease {
    uint32_t topic, lane;
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

#endif
