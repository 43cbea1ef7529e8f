/*
 * walking: calls that look at many jobs, in steps beside everything else: list, purge, redrive,
 * delete. This room only.
 *
 * A list asks the runs first (far_list.h), then the engine, and puts both together. The others
 * change what is in memory first; then, run by run, what is far comes to memory (far_walk.h) and is
 * changed there.
 */
#ifndef TARRY_LOCAL_WALKING_H
#define TARRY_LOCAL_WALKING_H

#include "local/private.h"

void walking_list(struct shard *shard, const struct queue_list *list,
                  struct queue_reply_to reply_to);
/* purge, delete, and redrive of all. */
void walking_topic(struct shard *shard, const struct queue_topic_call *call,
                   struct queue_reply_to reply_to);
/* Whether there is more to do that nothing stands in the way of. */
bool walkings_step(struct shard *shard);

#endif
