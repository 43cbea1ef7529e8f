/*
 * codec: packs and unpacks what the scripts exchange with the server (scripts/README.md). It packs
 * pushes, answers, changes and settings; it unpacks records, tries, results and topics. Pure.
 *
 * Packing appends whole arguments in the Redis protocol; a failed buffer reports its failure once,
 * at the end. Items have been checked (queue/check.h). Unpacking trusts nothing: it returns false
 * if a text is malformed, and *out is then unspecified. Times are given on the shard's clock and
 * converted to the wall clock: `adjust_ms` is how far the shard's clock is ahead of it. Slices in
 * *out point into the unpacked text.
 */
#ifndef TARRY_REDIS_CODEC_H
#define TARRY_REDIS_CODEC_H

#include "queue/queue.h"

/* The number of arguments that each item appends. */
enum { REDIS_PUSH_ARGS = 3, REDIS_ANSWER_ARGS = 2, REDIS_CHANGE_ARGS = 2, REDIS_TAKE_ARGS = 2 };
/* The bytes of a result of a push or a change. */
enum { REDIS_RESULT_BYTES = 8 };
/* The part of the number of a batch that is stored (queue_batch.number). */
#define REDIS_BATCH_NUMBER_MASK ((UINT64_C(1) << 48) - 1)
/* The number of reply elements for a taken job. */
enum { REDIS_TAKE_ELEMENTS = 3 };

/* Packs a push; a lease in batch->parent_delivery is known. `id_is_made`: the id was generated for this push, so the script need not check
 * whether a job has it. */
void redis_pack_push(struct buffer *args, const struct queue_push *push, bool id_is_made);
/* Packs an answer. `delivery`: the lease's delivery number, below 2^48. */
void redis_pack_answer(struct buffer *args, const struct queue_answer *answer, uint64_t delivery);
/* Appends the arguments that precede the answers and takes of a step. At most `due_max` jobs may
 * become due. */
void redis_pack_step(struct buffer *args, uint64_t chance, uint32_t due_max, uint32_t answers,
                     uint32_t takes);
void redis_pack_take(struct buffer *args, struct slice topic, uint32_t max, uint32_t bytes_max,
                     int64_t lease_ms, enum job_way way, struct slice consumer);
/* Appends a take that selects jobs (pick.lua): its terms and the consumer, as one argument. */
void redis_pack_pick(struct buffer *args, const struct queue_take *take, uint32_t bytes_max);
/* Packs a change. Its `delivery` must be set if it has a lease. */
void redis_pack_change(struct buffer *args, const struct queue_change *change);
void redis_pack_settings(struct buffer *args, const struct topic_settings *settings);
void redis_pack_group(struct buffer *args, const struct group_settings *settings);

/* Returns whether all pushes of a call were newly created, and when, on the shard's clock. */
bool redis_unpack_all_made(struct slice rest, int64_t *now_ms);
/* Fills in the result of such a push. */
void redis_result_of_made(const struct queue_when *when, int64_t now_ms, int64_t adjust_ms,
                          struct queue_result *out);
/* Takes the next result off the front of `rest`: the first function for push and change, the second
 * for answer. */
bool redis_unpack_result(struct slice *rest, int64_t adjust_ms, struct queue_result *out);
bool redis_unpack_answered(struct slice *rest, int64_t adjust_ms, struct queue_result *out);
/* Returns whether the next result is of a ready job of a topic of which no job can be delivered now. */
bool redis_result_is_held(struct slice rest);
bool redis_unpack_u8(struct slice *rest, uint8_t *out);
bool redis_unpack_u32(struct slice *rest, uint32_t *out);
bool redis_unpack_u48(struct slice *rest, uint64_t *out);
bool redis_unpack_rank(struct slice *rest, int64_t adjust_ms, struct queue_rank *out);

/* Unpacks everything but topic and id. `attempt` is the text of the try as answers show it; if it
 * is empty, `state` gives the job's state. */
bool redis_unpack_job(struct slice record, struct slice attempt, enum job_state state,
                      int64_t adjust_ms, struct job *out);
/* Unpacks the batch of a waiting job into `room`, and sets job->waiting to it; nothing happens if the job has no batch of its
 * own. Only a taken job shows the outcome, which is at the end of its meta. Returns false if it is malformed. */
bool redis_unpack_waiting(struct slice record, bool is_taken, struct queue_job *job,
                          struct queue_waiting *room);
/* Unpacks a kept job: everything but topic and id. Its due and sequence are those of a list
 * (queue_finished_rank). */
bool redis_unpack_kept(struct slice text, int64_t adjust_ms, struct job *out,
                       struct queue_end *end);

/* A message about the end of an awaited job (scripts/README.md, "Messages"). */
enum redis_outcome {
    REDIS_ACKED = 1,
    REDIS_CANCELLED,
    REDIS_EXPIRED,
    REDIS_DIED,
    REDIS_PURGED,
    REDIS_MOVED /* to another shard: it has not ended */
};
struct redis_ended {
    enum redis_outcome outcome;
    uint64_t number; /* of the shard's messages of this kind */
    struct slice topic, stored;
    bool has_job;
    struct slice job; /* as of redis_unpack_kept */
};
bool redis_unpack_ended(struct slice message, struct redis_ended *out);

/* Unpacks the counters returned by the script look: how often settings changed, how many watched
 * jobs died, and the number of the last message about the end of an awaited job. */
bool redis_unpack_counters(struct slice *rest, uint64_t *changes, uint64_t *deaths, uint64_t *ends);
/* Unpacks why a job is held; an empty text: it is not held. */
bool redis_unpack_held(struct slice text, int64_t adjust_ms, struct queue_job *out);
/* Unpacks everything but the name. */
bool redis_unpack_group(struct slice text, int64_t adjust_ms, struct queue_group *out);
bool redis_unpack_topic(struct slice text, int64_t adjust_ms, struct queue_topic *out);

#endif
