/*
 * sharded: one queue over several parts, each a queue with a share of the jobs.
 *
 * A sharded queue is itself a `struct queue`. It splits a batch by part and joins the results in the order of the
 * items, joins the pages of a list, sums topics and figures, takes from one part after the other, and carries a pause
 * to parts that do not have the topic yet. A call that concerns only one part is passed on directly. If there is only
 * one part, its owner uses that part without this layer.
 *
 * Requirements on a part, beyond queue.h
 *   1. Leases are tokens of the part; the owner can determine from a token which part issued it.
 *   2. list: cursors are those of queue/cursor.h, and the part continues after a cursor of another part; jobs have
 *   their `sequence`. get, list and topics may be sent to all parts at the same time.
 *   3. topic: `makes` is supported.
 *   4. Its `on_ready` and its `on_event` belong to the sharded queue. Events are passed on as often as the parts
 *   report them.
 *
 * One thread, that of the parts. The owner keeps the parts, which outlive the sharded queue; all replies must have
 * arrived before it is freed.
 */
#ifndef TARRY_QUEUE_SHARDED_H
#define TARRY_QUEUE_SHARDED_H

#include "queue/queue.h"

enum { SHARDED_PARTS_MAX = 64 };

struct sharded;

struct sharded_options {
    struct queue *const *parts; /* copied */
    uint32_t part_count;        /* 2..SHARDED_PARTS_MAX */
    uint32_t home; /* the part for calls that any part can answer, and the first for jobs */

    /* Whether the first part leads: pause, resume and settings are applied there first, and a delete is marked
     * there from before its first step until after its last. So the first part shows what a crash left half done: its state
     * applies to all parts. */
    bool leads;

    /* Lists and sums call the parts one after the other. If jobs move from a part to a later one meanwhile, no job
     * is missed, and no list shows a job twice. */
    bool in_turn;

    /* Returns wall minus inner time of the parts, so that cursors of joint lists follow steps of the wall clock
     * (queue/cursor.h). If the clocks of the parts differ, it is that of one of them. NULL: cursors stay. */
    int64_t (*skew_ms)(void *ctx);

    /* The parts carry out COMMAND_BATCH, so a batch may have members in several of them (queue/batch_parts.h). */
    bool joins_batches;
    /* A join ends by itself after some time, and its push is then rejected: a push whose end is unknown does not leave. */
    bool joins_expire;

    /* Returns the part that holds (or would hold) this job. The texts may be invalid. */
    uint32_t (*part_of_job)(void *ctx, struct slice topic, struct slice id);
    /* Returns the number that cursors use for the shard of a job, if it differs from the number of the part; it
     * rises with the parts. NULL: it is the number of the part. */
    uint32_t (*number_of_job)(void *ctx, uint32_t part, struct slice topic, struct slice id);
    /* Finds the part that issued this lease. False: no part; `home` rejects it. */
    bool (*part_of_lease)(void *ctx, struct slice lease, uint32_t *part);
    /* Topics whose jobs are in one part (flow_is_one_shard): part_of_job follows them. Begins a move of a topic, or a delete: false if a move of
     * it is in progress, or, for a move, a delete, or if out of memory. NULL: topics cannot be in one part. */
    bool (*place_begin)(void *ctx, struct slice topic, bool deletes);
    /* From now on all jobs of the topic go to one part, or each to its own. Returns what it was. On only after place_begin. */
    bool (*place)(void *ctx, struct slice topic, bool is_one);
    void (*place_end)(void *ctx, struct slice topic, bool deletes);
    /* Topics whose jobs are in one part by their name (flow_name_is_one_shard): part_of_job follows it. Only without place. */
    bool one_by_name;
    /* Sends a reply that comes from no part (out of memory, a rejection), later, not inside this call. */
    void (*refuse)(void *ctx, enum queue_status status, struct queue_reply_to reply_to);
    /* Calls sharded_repeat a little later, not inside this call. Only with joins_batches. */
    void (*repeat)(void *ctx);
    void *ctx;
};

/* Creates a sharded queue. NULL: out of memory. */
struct sharded *sharded_new(const struct sharded_options *options);
void sharded_free(struct sharded *sharded);

/* Sends the leaves again that no part has confirmed (queue/batch_parts.h). */
void sharded_repeat(struct sharded *sharded);

/* Returns whether no call that involves the sharded queue is in progress. */
bool sharded_is_idle(const struct sharded *sharded);

struct queue *sharded_queue(struct sharded *sharded);

#endif
