/*
 * lease: the token a taker holds, as text. Pure.
 *
 * 48 hex digits: low half of the job's key hash under a mask, delivery number (56 bits), shard, and
 * a check of all three under the store's key. The delivery number rises with every delivery of the
 * shard, across restarts too, so a token names one delivery for ever; and nobody makes one up who
 * holds others.
 */
#ifndef TARRY_LOCAL_LEASE_H
#define TARRY_LOCAL_LEASE_H

#include "base/mac.h"
#include "engine/engine.h"

enum { LEASE_TEXT_BYTES = 48 };

void lease_write(char out[LEASE_TEXT_BYTES], const struct mac_key *key,
                 const struct engine_lease *lease, uint32_t shard);
/* False: not a token of this store. */
bool lease_parse(struct slice text, const struct mac_key *key, struct engine_lease *lease,
                 uint32_t *shard);
/* Where a token belongs, unchecked. False: not the form of one. */
bool lease_find_shard(struct slice text, uint32_t *shard);

#endif
