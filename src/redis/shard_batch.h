/*
 * shard_batch: what is asked in a turn travels together, as one call of a script.
 *
 * A batch is of a kind, of one topic (answers: of any), and for takes of one length of lease. Items
 * are added until the end of the turn; while a batch like it is with Redis, and no more than
 * REDIS_SESSION_SLOTS are, it goes on growing, as in a group commit. What a kind's arguments look like
 * and what becomes of its answer only the kind knows.
 */
#ifndef TARRY_REDIS_SHARD_BATCH_H
#define TARRY_REDIS_SHARD_BATCH_H

#include "redis/shard_core.h"

enum { REDIS_BATCH_ITEMS_MAX = 500 };

struct redis_batch;

struct redis_batch_kind {
    enum redis_script script;
    size_t args, item_args; /* of the script: of the batch, and of each item */
    bool is_take;           /* counted by what comes, not by what is asked */
    /* Appends the arguments in front of those of the items; and, unless NULL, those behind. */
    void (*begin)(struct redis_batch *batch, struct slice topic);
    void (*finish)(struct redis_batch *batch);
    /* Ends each item. `head` and `reply` with QUEUE_OK alone. The batch is freed after it. */
    void (*done)(struct redis_batch *batch, enum queue_status status, const struct redis_head *head,
                 const redisReply *reply);
};

struct redis_item {
    void *owner;            /* the kind's own */
    uint32_t index;         /* of its result; or how many jobs are wanted */
    struct queue_when when; /* of a push */
};

struct redis_batch {
    struct list list;   /* shard->open, in the order they were begun; then shard->sent */
    struct list bucket; /* as long as more may be added */
    struct redis_shard *shard;
    struct redis_call call;
    const struct redis_batch_kind *kind;
    int64_t lease_ms; /* take */
    size_t wanted;    /* take */
    size_t count, cap;
    struct redis_item *items;
    size_t bytes; /* counted in shard->waiting_bytes */
    size_t topic_bytes;
    char topic[];
};

static inline struct slice redis_batch_topic(const struct redis_batch *batch)
{
    return slice_make(batch->topic, batch->topic_bytes);
}

/* The open batch this item may join, or a new one; with room for it. NULL: out of memory. */
struct redis_batch *redis_batch_need(struct redis_shard *shard, const struct redis_batch_kind *kind,
                                     struct slice topic, int64_t lease_ms);
/* After the item's arguments were appended. */
struct redis_item *redis_batch_add(struct redis_batch *batch, void *owner, uint32_t index);

/* Sends what may be sent now. */
void redis_batches_send(struct redis_shard *shard);
void redis_batches_free(struct redis_shard *shard);

#endif
