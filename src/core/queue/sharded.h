/*
 * sharded: one queue over several parts, each a queue that holds a share of the jobs.
 *
 * A sharded queue is itself a `struct queue`. It splits a batch by part and joins the results in
 * the order of the items, joins the pages of a list, sums topics and figures, takes from one part
 * after the other, and carries a pause to parts that do not know the topic yet. What concerns one
 * part alone is passed straight on. Where there is one part only, its owner hands that out, and
 * nothing of this is there.
 *
 * What it asks of a part, beyond queue.h
 *   1. Leases are the part's own tokens; the owner can tell from one which part gave it.
 *   2. list: cursors are those of queue/cursor.h, and the part goes on behind one that another part
 *      gave; jobs come with their `sequence`. get, list and topics may be asked of all parts at
 *      once.
 *   3. topic: `makes` is honoured.
 *   4. Its `on_ready` and its `on_event` belong to the sharded queue. What comes by on_event is
 *      passed on, as often as the parts tell it.
 *
 * One thread, that of the parts. The parts are the owner's and outlive the sharded queue; all
 * replies must have come before it is freed.
 */
#ifndef TARRY_QUEUE_SHARDED_H
#define TARRY_QUEUE_SHARDED_H

#include "queue/queue.h"

enum { SHARDED_PARTS_MAX = 64 };

struct sharded;

struct sharded_options {
    struct queue *const *parts; /* copied */
    uint32_t part_count;        /* 2..SHARDED_PARTS_MAX */
    uint32_t home;              /* the part that is asked where any will do, and first for jobs */

    /* Whether the first part leads: pause, resume and settings are there before they are anywhere
     * else, and a delete is marked there from before its first step to after its last. So what a
     * crash leaves half done can be told from it: what it says holds in all parts. */
    bool leads;

    /* Lists and sums ask the parts one after the other: where jobs go from a part into a later one
     * meanwhile, none is missed, and no list shows one twice. */
    bool in_turn;

    /* Which part holds (or would hold) this job. Any text may come, valid or not. */
    uint32_t (*part_of_job)(void *ctx, struct slice topic, struct slice id);
    /* The number that cursors name such a part's job by, where it is not the part's; it rises with the
     * parts. NULL: it is. */
    uint32_t (*number_of_job)(void *ctx, uint32_t part, struct slice topic, struct slice id);
    /* Which part gave this lease. False: it is nobody's; `home` refuses it. */
    bool (*part_of_lease)(void *ctx, struct slice lease, uint32_t *part);
    /* A reply that no part gives (out of memory, a refusal): later, not inside this call. */
    void (*refuse)(void *ctx, enum queue_status status, struct queue_reply_to reply_to);
    void *ctx;
};

/* NULL: out of memory. */
struct sharded *sharded_new(const struct sharded_options *options);
void sharded_free(struct sharded *sharded);

/* No call is under way that the sharded queue takes part in any more. */
bool sharded_is_idle(const struct sharded *sharded);

struct queue *sharded_queue(struct sharded *sharded);

#endif
