/*
 * lease: the token a taker holds, as text. Pure.
 *
 * 14 hex digits: shard, delivery number. The number rises with every delivery of the shard, so a
 * token names one delivery for ever, on all servers.
 */
#ifndef TARRY_REDIS_LEASE_H
#define TARRY_REDIS_LEASE_H

#include "base/slice.h"

#include <stdint.h>

enum { REDIS_LEASE_BYTES = 14 };

void redis_lease_write(char out[REDIS_LEASE_BYTES], uint32_t shard, uint64_t delivery);
/* False: not a token of ours. */
bool redis_lease_parse(struct slice text, uint32_t *shard, uint64_t *delivery);

#endif
