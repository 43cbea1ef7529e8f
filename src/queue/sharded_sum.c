/* Topics, summed up over the parts. */
#include "queue/copy.h"
#include "queue/sharded_private.h"

#include <stdlib.h>

static void add_topic(struct queue_topic *sum, const struct queue_topic *part)
{
    sum->counts.delayed += part->counts.delayed;
    sum->counts.retrying += part->counts.retrying;
    sum->counts.ready += part->counts.ready;
    sum->counts.leased += part->counts.leased;
    sum->counts.dead += part->counts.dead;
    sum->counts.dead_bytes += part->counts.dead_bytes;
    sum->totals.pushed += part->totals.pushed;
    sum->totals.acked += part->totals.acked;
    sum->totals.cancelled += part->totals.cancelled;
    sum->totals.expired += part->totals.expired;
    sum->totals.replaced += part->totals.replaced;
    sum->totals.delivered += part->totals.delivered;
    sum->totals.nacked += part->totals.nacked;
    sum->totals.lease_ended += part->totals.lease_ended;
    sum->totals.died += part->totals.died;
    sum->totals.redriven += part->totals.redriven;
    if (part->oldest_ready_due_ms &&
        (!sum->oldest_ready_due_ms || part->oldest_ready_due_ms < sum->oldest_ready_due_ms))
        sum->oldest_ready_due_ms = part->oldest_ready_due_ms;
}

/* Sorted by name, then equal names are summed up. Returns how many are left. */
static size_t add_up(struct queue_topic *topics, size_t total)
{
    size_t found = 0;
    queue_topics_sort(topics, total);
    for (size_t i = 0; i < total; i++) {
        if (found && slice_equals(topics[found - 1].name, topics[i].name))
            add_topic(&topics[found - 1], &topics[i]);
        else
            topics[found++] = topics[i];
    }
    return found;
}

/* A refusal by any part is the whole's; else OK, then CREATED, then NOT_FOUND. */
static void join_status(struct queue_reply *whole, const struct queue_reply *part)
{
    enum queue_status status = part ? part->status : QUEUE_NO_MEMORY;
    bool is_refusal = status != QUEUE_OK && status != QUEUE_CREATED && status != QUEUE_NOT_FOUND;
    bool was_refused = whole->status != QUEUE_OK && whole->status != QUEUE_CREATED &&
                       whole->status != QUEUE_NOT_FOUND;
    if (is_refusal || (!was_refused && status == QUEUE_OK) ||
        (whole->status == QUEUE_NOT_FOUND && status == QUEUE_CREATED))
        whole->status = status;
}

static void join_topics(struct sharded_gather *gather)
{
    size_t total = 0;
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND};
    for (uint32_t i = 0; i < gather->sharded->part_count; i++) {
        const struct queue_reply *part = gather->replies[i];
        join_status(&reply, part);
        total += part ? part->topic_count : 0;
        reply.affected += part ? part->affected : 0;
    }
    struct queue_topic *topics = malloc((total + 1) * sizeof *topics);
    if (!topics || (reply.status != QUEUE_OK && reply.status != QUEUE_CREATED)) {
        sharded_gather_refuse(gather, topics ? reply.status : QUEUE_NO_MEMORY);
        free(topics);
        return;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < gather->sharded->part_count; i++)
        for (size_t j = 0; j < gather->replies[i]->topic_count; j++)
            topics[at++] = gather->replies[i]->topics[j];
    reply.topics = topics;
    reply.topic_count = add_up(topics, total);
    sharded_gather_finish(gather, &reply);
    free(topics);
}

void sharded_sum(struct sharded *sharded, const struct command *command,
                 struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_topics, reply_to);
    if (gather)
        sharded_gather_ask_all(gather, command);
}

void sharded_sum_rest(struct sharded *sharded, const struct command *command,
                      const struct queue_reply *first, struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_topics, reply_to);
    if (!gather)
        return;
    gather->replies[0] = copy_reply(first);
    gather->left = sharded->part_count - 1;
    for (uint32_t part = 1; part < sharded->part_count; part++)
        sharded_gather_ask(gather, part, command);
}
