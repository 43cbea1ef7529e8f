/*
 * finding: commands that name a job which may be far wait until the scout has looked. This room
 * only.
 *
 * Before a command is carried out each key it names is looked for: in memory, then in the filters.
 * Where a filter says maybe the command waits; the scout looks on the disk; what it finds is
 * loaded, and then the command is carried out as if it had been there all along.
 */
#ifndef TARRY_LOCAL_FINDING_H
#define TARRY_LOCAL_FINDING_H

#include "local/private.h"

/* True: the command (copied) waits and will be submitted again by itself; it is counted until
 * then. False: carry it out now. */
bool finding_wants(struct shard *shard, const struct command *command,
                   struct queue_reply_to reply_to);
bool finding_is_busy(const struct shard *shard);
void finding_fini(struct shard *shard);
/* A far job that a helper found: translated, checked, loaded. Negative: it does not count any more,
 * or no memory. */
int shard_load(struct shard *shard, const struct record *record, struct record_place place,
               struct engine_now now);

#endif
