/*
 * shard_mail: carries what a shard has for others about batches with members in several shards (scripts/README.md, "Batches over
 * several shards"): reports to the home of a batch, orders to the shards with members, and the end of joins whose push is not known to
 * have ended. All of it is stored in the shard until it was confirmed there, so any server may carry it, twice too. A server
 * does so when an answer reports mail: after its own calls, and once a second for those of a server that has died.
 *
 * The replies to the calls that made the mail wait for it, at most MAIL_HOLD_US: so a caller that ends a member finds it in the counts. For
 * redis/shard*.c only.
 */
#ifndef TARRY_REDIS_SHARD_MAIL_H
#define TARRY_REDIS_SHARD_MAIL_H

#include "redis/shard_core.h"

void redis_mail_init(struct redis_shard *shard);
void redis_mail_fini(struct redis_shard *shard);
/* Replies after the next round of mail. */
void redis_mail_hold(struct redis_shard *shard, struct redis_soon *soon);
/* Runs in each step. Returns the inner time at which it needs to run next. */
int64_t redis_mail_step(struct redis_shard *shard, int64_t now_ms);
/* Returns whether mail is being carried, or is due. */
bool redis_mail_is_busy(const struct redis_shard *shard);

#endif
