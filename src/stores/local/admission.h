/*
 * admission: the entry of a command: refuses it, holds it back, parks it for lack of room in the
 * log, makes it wait until cold jobs have been looked up, splits it if it is too large, or executes
 * it. The entry point is shard_submit (local/shard.h). Private to this room.
 */
#ifndef TARRY_LOCAL_ADMISSION_H
#define TARRY_LOCAL_ADMISSION_H

#include "local/shard_core.h"

/* Executes commands that waited and no longer need to. Called once per shard step. */
void admission_step(struct shard *shard);

#endif
