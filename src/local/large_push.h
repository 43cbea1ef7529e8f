/*
 * large_push: a batch of pushes that takes more room than one batch of the log has.
 *
 * Small log files (--wal-file) have small batches, and a legal call may be larger than those. It is
 * carried out in pieces that fit, one after the other, and answered once, when the last piece is
 * durable. On the shard's thread.
 */
#ifndef TARRY_LOCAL_LARGE_PUSH_H
#define TARRY_LOCAL_LARGE_PUSH_H

#include "local/private.h"

/* Whether the command is such a batch. */
bool large_push_is(const struct shard *shard, const struct command *command);

/* Copies the command. Ends in one reply, with a result for each item. */
void large_push_start(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to);

#endif
