/*
 * codec: what travels to the scripts and back (scripts/README.md): pushes, answers, changes and
 * settings packed as arguments; records, tries, results and topics unpacked. Pure.
 *
 * Packing appends whole arguments in Redis' protocol; a buffer that fails says so once at the end.
 * Items have been checked (queue/check.h). Unpacking trusts nothing: false where a text is not of
 * the form it should have, *out then unspecified. Times come on the shard's clock and are shown on
 * the wall clock: `adjust_ms` is what the one is ahead of the other. Slices of *out point into what
 * was unpacked.
 */
#ifndef TARRY_REDIS_CODEC_H
#define TARRY_REDIS_CODEC_H

#include "queue/queue.h"

/* Each appends so many arguments. */
enum { REDIS_PUSH_ARGS = 3, REDIS_ANSWER_ARGS = 2, REDIS_CHANGE_ARGS = 2, REDIS_TAKE_ARGS = 2 };
/* So many elements of a reply are a job that was taken. */
enum { REDIS_TAKE_ELEMENTS = 3 };

/* `id_is_made`: it was made for this push, so nobody need look whether it has a job. */
void redis_pack_push(struct buffer *args, const struct queue_push *push, bool id_is_made);
/* `delivery`: of the lease, below 2^48. */
void redis_pack_answer(struct buffer *args, const struct queue_answer *answer, uint64_t delivery);
/* What stands in front of a turn's answers and takes: `due_max` jobs may become due. */
void redis_pack_turn(struct buffer *args, uint64_t chance, uint32_t due_max, uint32_t answers,
                     uint32_t takes);
void redis_pack_take(struct buffer *args, struct slice topic, uint32_t max, uint32_t bytes_max,
                     int64_t lease_ms, enum job_way way, struct slice consumer);
/* One that chooses (pick.lua): the terms and the consumer, as one argument. */
void redis_pack_pick(struct buffer *args, const struct queue_take *take, uint32_t bytes_max);
/* `delivery` is set where the change has a lease. */
void redis_pack_change(struct buffer *args, const struct queue_change *change);
void redis_pack_settings(struct buffer *args, const struct topic_settings *settings);

/* Whether all of a call's pushes were simply made; when, on the shard's clock. */
bool redis_unpack_all_made(struct slice rest, int64_t *now_ms);
/* What became of one of those. */
void redis_result_of_made(const struct queue_when *when, int64_t now_ms, int64_t adjust_ms,
                          struct queue_result *out);
/* The next one off the front of `rest`. Of push and change; of answer. */
bool redis_unpack_result(struct slice *rest, int64_t adjust_ms, struct queue_result *out);
bool redis_unpack_answered(struct slice *rest, int64_t adjust_ms, struct queue_result *out);
bool redis_unpack_u8(struct slice *rest, uint8_t *out);
bool redis_unpack_u32(struct slice *rest, uint32_t *out);
bool redis_unpack_u48(struct slice *rest, uint64_t *out);
bool redis_unpack_rank(struct slice *rest, int64_t adjust_ms, struct queue_rank *out);

/* All but topic and id. `attempt` is the try's text as answers show it, empty where there is none;
 * then `state` says in which it is. */
bool redis_unpack_job(struct slice record, struct slice attempt, enum job_state state,
                      int64_t adjust_ms, struct job *out);
/* A look's: how often settings changed; how often jobs died that somebody looks after. */
bool redis_unpack_counters(struct slice *rest, uint64_t *changes, uint64_t *deaths);
/* All but the name. */
bool redis_unpack_topic(struct slice text, int64_t adjust_ms, struct queue_topic *out);

#endif
