/*
 * recovery: a shard's depot, log and engine as they were: the catalog's figures, the log over them, then
 * what the log could not tell. Blocking, before the shard's first turn.
 */
#ifndef TARRY_LOCAL_RECOVERY_H
#define TARRY_LOCAL_RECOVERY_H

#include "local/shard_core.h"

/* 0, or negative errno with `error`; what was opened by then shard_free closes. */
int shard_recover(struct shard *shard, struct shard_recovered *recovered, char *error,
                  size_t error_bytes);

#endif
