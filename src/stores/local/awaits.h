/*
 * awaits: calls that wait for the end of a job (COMMAND_AWAIT, queue_push.ended). A wait belongs to an id: it ends when
 * no job of this id is left, or when the job dies. Its reply is sent when the end is durable, together with the answer
 * of the consumer. Private to this room, on the shard's thread.
 */
#ifndef TARRY_LOCAL_AWAITS_H
#define TARRY_LOCAL_AWAITS_H

#include "base/table.h"
#include "local/shard_core.h"

struct awaits;

struct awaits *awaits_new(void); /* NULL: out of memory */
void awaits_free(struct awaits *awaits);

/* Begins a wait for a job that exists and has not ended. `push_needs`: the durable sequence that its push needs
 * (shard_needs), if the wait begins with a push; else 0. */
void awaits_add(struct shard *shard, struct slice topic, struct slice id, uint64_t push_needs,
                struct queue_reply_to reply_to);
/* Drops the waits whose push has failed (shard.failed_after), without a reply. */
void awaits_drop_failed(struct shard *shard);
/* Ends the wait with this destination, or with this tag if it came from another thread (awaits_tag). */
void awaits_cancel(struct shard *shard, struct slice topic, struct slice id,
                   const struct queue_reply_to *reply_to);
/* Returns the tag for the destination of a wait on its way from another thread. */
uint64_t awaits_tag(struct queue_reply_to reply_to);
/* Ends all waits with this status, because the shard stops or has failed. */
void awaits_end_all(struct shard *shard, enum queue_status status);
/* The callback of the engine (engine_sink.ended). */
void awaits_on_ended(void *shard, const struct engine_ended *ended);

#endif
