/*
 * lease: the text form of the token that a consumer holds. Pure.
 *
 * 30 hex digits: the shard, the delivery number, and a check of both under the shard's key, which
 * is stored in Redis. The number rises with every delivery of the shard, so a token identifies one
 * delivery forever, on all servers. A client cannot forge a token from the tokens that it holds.
 */
#ifndef TARRY_REDIS_LEASE_H
#define TARRY_REDIS_LEASE_H

#include "base/mac.h"
#include "base/slice.h"

enum { REDIS_LEASE_BYTES = 30 };

void redis_lease_write(char out[REDIS_LEASE_BYTES], const struct mac_key *key, uint32_t shard,
                       uint64_t delivery);
/* Returns false if the text is not a token of this shard. */
bool redis_lease_parse(struct slice text, const struct mac_key *key, uint32_t *shard,
                       uint64_t *delivery);
/* Reads the shard number of a token without checking the token. Returns false if the text does not
 * have the form of a token. */
bool redis_lease_find_shard(struct slice text, uint32_t *shard);

#endif
