/*
 * scan: calls that process many jobs, in steps alongside other work: list, purge, redrive, delete.
 * Private to this room.
 *
 * A list reads the runs first (cold_list.h), then the engine, and merges both. The other calls
 * change the jobs in memory first; then, run by run, cold jobs are loaded and changed in memory.
 */
#ifndef TARRY_LOCAL_SCAN_H
#define TARRY_LOCAL_SCAN_H

#include "local/shard_core.h"

/* Starts a list, a purge, a delete, or a redrive of all jobs. */
void scan_start(struct shard *shard, const struct command *command, struct queue_reply_to reply_to);
/* Starts to drop cold kept jobs of a topic that has too many, if there is one. */
void scan_trim(struct shard *shard);
/* Executes a step. Returns whether more work can continue now. */
bool scans_step(struct shard *shard);

#endif
