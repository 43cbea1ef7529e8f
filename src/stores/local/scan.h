/*
 * scan: calls that look at many jobs, in steps beside everything else: list, purge, redrive,
 * delete. This room only.
 *
 * A list asks the runs first (cold_list.h), then the engine, and puts both together. The others
 * change what is in memory first; then, run by run, what is cold comes to memory and is changed there.
 */
#ifndef TARRY_LOCAL_SCAN_H
#define TARRY_LOCAL_SCAN_H

#include "local/shard_core.h"

/* A list, a purge, a delete, or a redrive of all. */
void scan_start(struct shard *shard, const struct command *command, struct queue_reply_to reply_to);
/* Whether there is more to do that nothing stands in the way of. */
bool scans_step(struct shard *shard);

#endif
