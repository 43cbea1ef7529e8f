/* command: carries out the calls of queue.h on one shard. This room only. */
#ifndef TARRY_LOCAL_COMMAND_H
#define TARRY_LOCAL_COMMAND_H

#include "local/shard_core.h"

/* -EAGAIN: no room just now. 0: carried out (or refused), and will be answered. */
int command_run(struct shard *shard, const struct command *command, struct queue_reply_to reply_to);

#endif
