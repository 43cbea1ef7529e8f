/*
 * recovery_lookup: jobs that the log tells of but does not hold: they lie in runs. After the replay they
 * are looked up, many at once, and the engine is told.
 *
 * The log names the slot of most. The others became cold while what it tells of them was written
 * already, or their run was never committed: these are looked for by key.
 */
#ifndef TARRY_LOCAL_RECOVERY_LOOKUP_H
#define TARRY_LOCAL_RECOVERY_LOOKUP_H

#include "local/private.h"

/* Before engine_start. Blocking. 0 or negative errno: one cannot be read, or there is none. */
int recovery_lookup_find(struct shard *shard);

#endif
