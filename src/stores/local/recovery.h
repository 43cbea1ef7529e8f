/*
 * recovery: restores a shard's depot, log and engine: the figures of the catalog, the log after
 * them, then what the log does not contain. Blocking, before the shard's first step.
 */
#ifndef TARRY_LOCAL_RECOVERY_H
#define TARRY_LOCAL_RECOVERY_H

#include "local/shard_core.h"

/* Recovers a shard. Returns 0, or a negative errno with `error`; shard_free then closes what was
 * opened. */
int shard_recover(struct shard *shard, struct shard_recovered *recovered, char *error,
                  size_t error_bytes);

#endif
