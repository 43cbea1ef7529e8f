/*
 * batch_mail: the reports and orders that a shard sends to others about batches with members in several shards
 * (queue/batch_parts.h). Each is sent once the change that it is about is durable, and ahead of the replies to that change. The engine
 * keeps what is due: after a start, everything is sent again.
 */
#ifndef TARRY_LOCAL_BATCH_MAIL_H
#define TARRY_LOCAL_BATCH_MAIL_H

#include "local/shard_core.h"

/* Takes what is due from the engine. It waits until `sequence` is durable. */
void batch_mail_collect(struct shard *shard, uint64_t sequence);
/* Sends what has become durable. */
void batch_mail_send(struct shard *shard);
/* Takes what became due without a record, at the end of a step. Returns whether anything can be sent now. */
bool batch_mail_step(struct shard *shard, int64_t process_ms);
/* Returns when to try again after a failure; INT64_MAX: nothing failed. */
int64_t batch_mail_next_ms(const struct shard *shard);
bool batch_mail_is_busy(const struct shard *shard);
void batch_mail_fini(struct shard *shard);

#endif
