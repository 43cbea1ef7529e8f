/*
 * waits: the calls of this server that wait for the end of a job (COMMAND_AWAIT, and pushes with
 * `ended`). A queue in front of the queue of all shards: every other call passes through.
 *
 * A wait is first noted in Redis, and then the job is looked up, in one script call (await.lua), or
 * noted in the script of its push. A script that ends the job publishes the end, with the result up
 * to 8 KiB; a longer one is read. Nothing polls: a wait is looked up again only after a message may
 * have been lost, and each 20 s, which also renews its note. An end that arrives while a call about
 * the wait is in progress is held until its reply, because it may be of an earlier job of this id.
 * A later look-up can overtake the message of an end, since Redis sends both by connections of their own: a job that was
 * noted and is not found is awaited for two more seconds.
 *
 * Runs on the reactor's thread. Owner: redis.c.
 */
#ifndef TARRY_REDIS_WAITS_H
#define TARRY_REDIS_WAITS_H

#include "redis/codec.h"

struct redis_waits;

/* `below`: the queue of all shards, which must outlive the waits' last call. NULL: out of memory. */
struct redis_waits *redis_waits_new(struct queue *below);
/* Frees the waits. Those that are left get no reply. */
void redis_waits_free(struct redis_waits *waits); /* accepts NULL */
/* Returns the queue for callers. */
struct queue *redis_waits_queue(struct redis_waits *waits);

/* Takes in a message of a script. `adjust_ms`: of its shard. */
void redis_waits_ended(struct redis_waits *waits, const struct redis_ended *ended,
                       int64_t adjust_ms);
/* Looks up all waits again: messages may have been lost. */
void redis_waits_check(struct redis_waits *waits);
/* Replies that are due, at the end of a loop iteration. Returns the inner time of the next call;
 * INT64_MAX: not needed. */
int64_t redis_waits_step(struct redis_waits *waits, int64_t now_ms);
/* Ends all waits with QUEUE_STOPPING, in the next step. */
void redis_waits_stop(struct redis_waits *waits);
/* Returns whether no call is left. */
bool redis_waits_are_done(const struct redis_waits *waits);

#endif
