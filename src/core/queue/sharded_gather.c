#include "queue/sharded_gather.h"

#include "queue/copy.h"

#include <assert.h>
#include <stdlib.h>

/* ---- one part ---- */

void sharded_send(struct sharded *sharded, uint32_t part, const struct command *command,
                  struct queue_reply_to reply_to)
{
    struct queue *queue = sharded->parts[part].queue;
    queue->ops->submit(queue, command, reply_to);
}

void sharded_refuse(struct sharded *sharded, enum queue_status status,
                    struct queue_reply_to reply_to)
{
    sharded->options.refuse(sharded->options.ctx, status, reply_to);
}

uint32_t sharded_part_of_job(const struct sharded *sharded, struct slice topic, struct slice id)
{
    uint32_t part = sharded->options.part_of_job(sharded->options.ctx, topic, id);
    assert(part < sharded->part_count);
    return part;
}

/* ---- several ---- */

struct sharded_gather *sharded_gather_new(struct sharded *sharded,
                                          void (*join)(struct sharded_gather *gather),
                                          struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = calloc(1, sizeof *gather);
    if (!gather) {
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return NULL;
    }
    sharded->under_way++;
    gather->sharded = sharded;
    gather->join = join;
    gather->reply_to = reply_to;
    return gather;
}

void sharded_gather_free(struct sharded_gather *gather)
{
    for (uint32_t i = 0; i < gather->sharded->part_count; i++)
        free(gather->replies[i]);
    gather->sharded->under_way--;
    free(gather->in_turn);
    free(gather->part_of);
    free(gather);
}

void sharded_gather_finish(struct sharded_gather *gather, const struct queue_reply *reply)
{
    gather->reply_to.done(gather->reply_to.owner, gather->reply_to.tag, reply);
    sharded_gather_free(gather);
}

void sharded_gather_refuse(struct sharded_gather *gather, enum queue_status status)
{
    struct queue_reply reply = {.status = status};
    sharded_gather_finish(gather, &reply);
}

static void part_done(void *owner, uint64_t part, const struct queue_reply *reply)
{
    struct sharded_gather *gather = owner;
    gather->replies[part] = copy_reply(reply);
    if (!--gather->left)
        gather->join(gather);
    else if (gather->in_turn)
        sharded_gather_ask(gather, (uint32_t)part + 1, gather->in_turn);
}

void sharded_gather_ask(struct sharded_gather *gather, uint32_t part, const struct command *command)
{
    sharded_send(gather->sharded, part, command,
                 (struct queue_reply_to){.done = part_done, .owner = gather, .tag = part});
}

void sharded_gather_ask_all(struct sharded_gather *gather, const struct command *command)
{
    uint32_t count = gather->left = gather->sharded->part_count;
    if (gather->sharded->options.in_turn && (gather->in_turn = copy_command(command)))
        count = 1; /* if memory runs out: all parts together */
    for (uint32_t part = 0; part < count; part++)
        sharded_gather_ask(gather, part, command);
}
