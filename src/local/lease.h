/*
 * lease: the token a taker holds, as text. Pure.
 *
 * 32 hex digits: low half of the job's key hash, delivery number (56 bits), shard. The delivery
 * number rises with every delivery of the shard, across restarts too, so a token names one delivery
 * for ever.
 */
#ifndef TARRY_LOCAL_LEASE_H
#define TARRY_LOCAL_LEASE_H

#include "engine/engine.h"

enum { LEASE_TEXT_BYTES = 32 };

void lease_write(char out[LEASE_TEXT_BYTES], const struct engine_lease *lease, uint32_t shard);
/* False: not a token of ours. */
bool lease_parse(struct slice text, struct engine_lease *lease, uint32_t *shard);

#endif
