/*
 * batch_parts: a batch whose members are in several shards. PURE.
 *
 * The home of a batch is the shard of its waiting job. Every shard with members counts its own, in the step that changes them
 * (queue/life.h). The home adds these counts up and decides when the wait ends. All functions below are the home's.
 *
 *   join     Before a push, the home is asked whether a new member may join. If so, the push is under way until it leaves: the
 *            wait does not end meanwhile.
 *   leave    After the push, whatever became of it. It has the version of the counts that the push made, which the home must have
 *            seen before the wait ends. If it is not known whether the push was stored, its shard returns this version first. A
 *            leave is sent until the home has confirmed it, and needs neither room in the log nor a data directory in its place:
 *            if it ends the wait, the home records that when it can.
 *   report   A shard sends its counts after each change, once that is durable, and before the change is answered. Each
 *            report has all counts and a version that rises, so reports may be lost, repeated, and come late.
 *   order    The home orders a shard to stop (BATCH_STOP), or to forget the batch because its wait is over. It does so once
 *            its own change is durable, and again until the shard has confirmed it.
 *
 * So the wait ends only if no push is under way, every push that left was seen, and no shard has reported an unfinished member.
 * A member that adds a member is unfinished itself until it is answered, so its push is not rejected.
 *
 * Joins and reports are in memory only. They end with the process, as the pushes do. After a start, every shard reports all of its
 * batches before any call comes.
 */
#ifndef TARRY_QUEUE_BATCH_PARTS_H
#define TARRY_QUEUE_BATCH_PARTS_H

#include "queue/life.h"

/* Orders to a shard; bits. */
enum { BATCH_ORDER_STOP = 1, BATCH_ORDER_FORGET = 2 };

struct batch_report {
    uint64_t version; /* 0: none yet */
    struct batch_counts counts;
    bool is_stopped;
};

/* The home's record of one shard: its last report, and the orders sent to it. */
struct batch_part {
    uint32_t shard;
    uint32_t under_way;        /* pushes that joined and have not left */
    uint64_t needs;            /* version that must be seen */
    uint8_t ordered, followed; /* orders that were sent, and that were confirmed */
    struct batch_report seen;
};

struct batch_parts {
    struct batch_part *at;
    uint32_t count;
};

void batch_parts_fini(struct batch_parts *parts);
/* Returns what is known of a shard, and creates it. NULL: out of memory. */
struct batch_part *batch_parts_of(struct batch_parts *parts, uint32_t shard);

void batch_part_join(struct batch_part *part);
void batch_part_leave(struct batch_part *part, uint64_t version);
/* Takes a report into the counts of the whole batch, unless a newer one was seen, or the wait has ended. Closes the batch if it has
 * the expected members. */
void batch_part_hear(struct batch_part *part, const struct batch_report *report,
                     struct life_batch *whole);

/* Returns whether the counts of the batch are complete: no push is under way or has not been seen. */
bool batch_parts_are_complete(const struct batch_parts *parts);
/* Returns the counts without those that were reported: of the members of the home itself. */
struct batch_counts batch_parts_home(const struct batch_parts *parts,
                                     const struct life_batch *whole);

/* Returns the orders that all shards must follow. `is_gone`: the waiting job has ended. */
uint8_t batch_parts_orders(const struct life_batch *whole, bool is_gone);
/* Returns whether nothing is left to do for a batch that is gone. */
bool batch_parts_are_done(const struct batch_parts *parts, uint32_t home, uint8_t orders);

#endif
