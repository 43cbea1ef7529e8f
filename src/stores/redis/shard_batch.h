/*
 * shard_batch: sends the requests of one step together.
 *
 * A batch has one kind, one topic (answers: any topics), and for takes the same terms. Items are
 * added until the end of the step. Pushes and changes are separate calls: while a similar batch is
 * with Redis, and at most REDIS_SESSION_SLOTS are, the batch keeps growing, as in a group commit.
 * Answers and takes travel together (shard_step.h). Only the kind defines the layout of the
 * arguments and how to read the reply.
 */
#ifndef TARRY_REDIS_SHARD_BATCH_H
#define TARRY_REDIS_SHARD_BATCH_H

#include "redis/shard_core.h"

enum { REDIS_BATCH_ITEMS_MAX = 500 };

struct redis_batch;

/* The part of a reply that belongs to a batch. Its results are next in `rest`, and the batch takes
 * them off. Its elements of the reply are `count` from `at` on; for takes, three per job.
 * `leaves_some`: of a take, its topic may have more ready jobs. */
struct redis_batch_answer {
    const struct redis_head *head;
    const redisReply *reply;
    struct slice *rest;
    size_t at, count;
    bool leaves_some;
};

struct redis_batch_kind {
    enum redis_script script;
    size_t args, item_args; /* script arguments of the batch, and of each item */
    bool is_take;           /* figures count the jobs returned, not the items */
    /* Append the arguments before those of the items; and, unless NULL, those after them. */
    void (*begin)(struct redis_batch *batch, struct slice topic);
    void (*finish)(struct redis_batch *batch);
    /* Ends each item. `answer` is set only with QUEUE_OK. The batch is freed afterwards. */
    void (*done)(struct redis_batch *batch, enum queue_status status,
                 const struct redis_batch_answer *answer);
};

/* The terms of takes; zeroed for other kinds. Takes with different terms do not share a batch. */
struct redis_take_terms {
    int64_t lease_ms;
    struct slice consumer;
};

struct redis_item {
    void *owner;            /* for use by the kind */
    uint32_t index;         /* of its result; or the number of jobs wanted */
    struct queue_when when; /* for pushes */
};

struct redis_batch {
    struct list
        list; /* shard->open, in order of creation; then shard->sent, or the list of its step */
    struct list bucket; /* linked while items may be added */
    struct redis_shard *shard;
    struct redis_call call;
    const struct redis_batch_kind *kind;
    struct redis_take_terms terms; /* the consumer is stored after the topic */
    enum job_way way;              /* take: if the same for all items, else unknown */
    size_t wanted;                 /* take: jobs wanted */
    size_t count, cap;
    struct redis_item *items;
    size_t bytes; /* counted in shard->waiting_bytes */
    size_t topic_bytes;
    char topic[]; /* followed by the consumer */
};

static inline struct slice redis_batch_topic(const struct redis_batch *batch)
{
    return slice_make(batch->topic, batch->topic_bytes);
}

/* Returns an open batch that this item may join, or a new one, with room for the item. NULL if
 * memory runs out. */
struct redis_batch *redis_batch_need(struct redis_shard *shard, const struct redis_batch_kind *kind,
                                     struct slice topic, struct redis_take_terms terms);
/* Adds an item, after its arguments were appended. */
struct redis_item *redis_batch_add(struct redis_batch *batch, void *owner, uint32_t index);

/* Returns whether the batch is no longer held back to collect more items. */
bool redis_batch_is_grown(const struct redis_batch *batch);
/* Removes the batch from the open ones; its arguments are then complete. */
void redis_batch_close(struct redis_batch *batch);
/* Ends the batch's items and frees the batch. */
void redis_batch_end(struct redis_batch *batch, enum queue_status status,
                     const struct redis_batch_answer *answer);
static inline bool redis_batch_is_of_step(const struct redis_batch *batch)
{
    return batch->kind->script == REDIS_STEP;
}

/* Sends those batches of separate calls that may be sent now. */
void redis_batches_send(struct redis_shard *shard);
/* Ends the open batches. */
void redis_batches_free(struct redis_shard *shard);

#endif
