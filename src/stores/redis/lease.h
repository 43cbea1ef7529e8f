/*
 * lease: the token a taker holds, as text. Pure.
 *
 * 30 hex digits: shard, delivery number, and a check of both under the shard's key, which Redis
 * keeps. The number rises with every delivery of the shard, so a token names one delivery for ever,
 * on all servers; and nobody makes one up who holds others.
 */
#ifndef TARRY_REDIS_LEASE_H
#define TARRY_REDIS_LEASE_H

#include "base/mac.h"
#include "base/slice.h"

enum { REDIS_LEASE_BYTES = 30 };

void redis_lease_write(char out[REDIS_LEASE_BYTES], const struct mac_key *key, uint32_t shard,
                       uint64_t delivery);
/* False: not a token of this shard's. */
bool redis_lease_parse(struct slice text, const struct mac_key *key, uint32_t *shard,
                       uint64_t *delivery);
/* Where a token belongs, unchecked. False: not the form of one. */
bool redis_lease_find_shard(struct slice text, uint32_t *shard);

#endif
