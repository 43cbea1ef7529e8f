/*
 * admission: a command on its way in: refused, held back, parked for want of room in the log, made to
 * wait until cold jobs were looked up, cut in pieces where it is too large; else carried out. The way in
 * is shard_submit (local/shard.h). This room only.
 */
#ifndef TARRY_LOCAL_ADMISSION_H
#define TARRY_LOCAL_ADMISSION_H

#include "local/shard_core.h"

/* Once a turn: commands that waited, and need not any more. */
void admission_step(struct shard *shard);

#endif
