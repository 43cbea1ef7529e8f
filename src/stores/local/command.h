/* command: executes the calls of queue.h on one shard. Private to this room. */
#ifndef TARRY_LOCAL_COMMAND_H
#define TARRY_LOCAL_COMMAND_H

#include "local/shard_core.h"

/* Executes a command. Returns -EAGAIN if there is no room at the moment, or 0: it was executed (or
 * refused), and a reply follows. */
int command_run(struct shard *shard, const struct command *command, struct queue_reply_to reply_to);

#endif
