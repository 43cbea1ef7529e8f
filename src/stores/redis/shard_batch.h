/*
 * shard_batch: what is asked in a turn travels together.
 *
 * A batch is of a kind, of one topic (answers: of any), and for takes of the same terms. Items
 * are added until the end of the turn. Pushes and changes are calls of their own: while a batch like it
 * is with Redis, and no more than REDIS_SESSION_SLOTS are, it goes on growing, as in a group commit.
 * Answers and takes travel together (shard_turn.h). What a kind's arguments look like and what becomes
 * of its answer only the kind knows.
 */
#ifndef TARRY_REDIS_SHARD_BATCH_H
#define TARRY_REDIS_SHARD_BATCH_H

#include "redis/shard_core.h"

enum { REDIS_BATCH_ITEMS_MAX = 500 };

struct redis_batch;

/* What came for a batch: its results are next in `rest`; its elements of the reply are `count` from
 * `at` on, for takes three for each job. The batch takes its results off `rest`. `leaves_some`: of a
 * take, its topic may have more that is ready. */
struct redis_batch_answer {
    const struct redis_head *head;
    const redisReply *reply;
    struct slice *rest;
    size_t at, count;
    bool leaves_some;
};

struct redis_batch_kind {
    enum redis_script script;
    size_t args, item_args; /* of the script: of the batch, and of each item */
    bool is_take;           /* counted by what comes, not by what is asked */
    /* Appends the arguments in front of those of the items; and, unless NULL, those behind. */
    void (*begin)(struct redis_batch *batch, struct slice topic);
    void (*finish)(struct redis_batch *batch);
    /* Ends each item. `answer` with QUEUE_OK alone. The batch is freed after it. */
    void (*done)(struct redis_batch *batch, enum queue_status status,
                 const struct redis_batch_answer *answer);
};

/* Of takes; zeroed for other kinds. Those that differ in it do not travel as one. */
struct redis_take_terms {
    int64_t lease_ms;
    struct slice consumer;
};

struct redis_item {
    void *owner;            /* the kind's own */
    uint32_t index;         /* of its result; or how many jobs are wanted */
    struct queue_when when; /* of a push */
};

struct redis_batch {
    struct list
        list; /* shard->open, in the order they were begun; then shard->sent, or its turn's */
    struct list bucket; /* as long as more may be added */
    struct redis_shard *shard;
    struct redis_call call;
    const struct redis_batch_kind *kind;
    struct redis_take_terms terms; /* the consumer stands behind the topic */
    enum job_way way;              /* take: all of them alike, else unknown */
    size_t wanted;                 /* take */
    size_t count, cap;
    struct redis_item *items;
    size_t bytes; /* counted in shard->waiting_bytes */
    size_t topic_bytes;
    char topic[]; /* then the consumer */
};

static inline struct slice redis_batch_topic(const struct redis_batch *batch)
{
    return slice_make(batch->topic, batch->topic_bytes);
}

/* The open batch this item may join, or a new one; with room for it. NULL: out of memory. */
struct redis_batch *redis_batch_need(struct redis_shard *shard, const struct redis_batch_kind *kind,
                                     struct slice topic, struct redis_take_terms terms);
/* After the item's arguments were appended. */
struct redis_item *redis_batch_add(struct redis_batch *batch, void *owner, uint32_t index);

/* No more of its items wait for others. */
bool redis_batch_is_grown(const struct redis_batch *batch);
/* Takes it out of the open ones; its arguments are complete from then on. */
void redis_batch_close(struct redis_batch *batch);
/* Tells its items, and frees it. */
void redis_batch_end(struct redis_batch *batch, enum queue_status status,
                     const struct redis_batch_answer *answer);
static inline bool redis_batch_is_of_turn(const struct redis_batch *batch)
{
    return batch->kind->script == REDIS_TURN;
}

/* Sends what may be sent now of those that are calls of their own. */
void redis_batches_send(struct redis_shard *shard);
/* Ends the open ones. */
void redis_batches_free(struct redis_shard *shard);

#endif
