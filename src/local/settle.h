/*
 * settle: what a crash left half done over several shards is settled before any call comes.
 *
 * The first shard leads (queue/sharded.h): settings and pause are there first, and a delete is marked
 * there until its end. So what it says of a topic holds in all of them. Where it says nothing of a
 * topic that has settings or is paused elsewhere, as directories of older versions may, the first
 * shard that does is followed.
 */
#ifndef TARRY_LOCAL_SETTLE_H
#define TARRY_LOCAL_SETTLE_H

#include "local/handle.h"

/* Once all shards have recovered, before any of their loops runs. What was changed is written with
 * the first turn; deletes go on from then. */
void local_settle(struct local *local);

#endif
