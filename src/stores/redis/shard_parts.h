/*
 * shard_parts: calls to a shard about batches with members in several shards (scripts/batch.lua, queue/batch_parts.h). They travel in
 * batches, in their order. For redis/shard*.c only.
 */
#ifndef TARRY_REDIS_SHARD_PARTS_H
#define TARRY_REDIS_SHARD_PARTS_H

#include "redis/shard_core.h"

/* The verbs of the script. */
enum redis_part_verb {
    REDIS_PART_JOIN = 1,
    REDIS_PART_LEAVE,
    REDIS_PART_LEASE,
    REDIS_PART_REPORT,
    REDIS_PART_FOLLOW,
    REDIS_PART_FOLLOWED,
    REDIS_PART_FENCE
};

enum { REDIS_PART_BYTES_MAX = 64 + JOB_TOPIC_BYTES_MAX + 1 + JOB_ID_BYTES_MAX };

/* A call being packed: the verb, its numbers, then topic NUL id of the waiting job. */
struct redis_part_text {
    char at[REDIS_PART_BYTES_MAX];
    size_t len;
};

struct redis_part_text redis_part_begin(enum redis_part_verb verb);
void redis_part_number(struct redis_part_text *text, uint64_t number, size_t bytes);
/* Appends a name as stored. */
void redis_part_name(struct redis_part_text *text, struct slice name);

struct redis_part_answer {
    enum queue_status status;
    uint64_t number, version;
    uint8_t depth, on_dead, orders;
};

/* A call in progress. Embed it. `done` runs once, not inside redis_part_send; `answer` is set only with QUEUE_OK. */
struct redis_part_call {
    void (*done)(struct redis_part_call *call, enum queue_status status,
                 const struct redis_part_answer *answer);
};

/* Adds the call to the next batch. Returns false, and does not call back, if memory runs out. */
bool redis_part_send(struct redis_shard *to, struct redis_part_call *call,
                     const struct redis_part_text *text);

#endif
