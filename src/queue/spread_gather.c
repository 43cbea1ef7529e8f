#include "queue/copy.h"
#include "queue/spread_private.h"

#include <stdlib.h>

struct spread_gather *spread_gather_new(struct spread *spread,
                                        void (*join)(struct spread_gather *gather),
                                        struct queue_reply_to reply_to)
{
    struct spread_gather *gather = calloc(1, sizeof *gather);
    if (!gather) {
        spread_refuse(spread, QUEUE_NO_MEMORY, reply_to);
        return NULL;
    }
    gather->spread = spread;
    gather->join = join;
    gather->reply_to = reply_to;
    return gather;
}

void spread_gather_free(struct spread_gather *gather)
{
    for (uint32_t i = 0; i < gather->spread->part_count; i++)
        free(gather->replies[i]);
    free(gather->part_of);
    free(gather);
}

void spread_gather_finish(struct spread_gather *gather, const struct queue_reply *reply)
{
    gather->reply_to.done(gather->reply_to.owner, gather->reply_to.tag, reply);
    spread_gather_free(gather);
}

void spread_gather_refuse(struct spread_gather *gather, enum queue_status status)
{
    struct queue_reply reply = {.status = status};
    spread_gather_finish(gather, &reply);
}

static void part_done(void *owner, uint64_t part, const struct queue_reply *reply)
{
    struct spread_gather *gather = owner;
    gather->replies[part] = copy_reply(reply);
    if (!--gather->left)
        gather->join(gather);
}

void spread_gather_ask(struct spread_gather *gather, uint32_t part, const struct command *command)
{
    spread_send(gather->spread, part, command,
                (struct queue_reply_to){.done = part_done, .owner = gather, .tag = part});
}

void spread_gather_ask_all(struct spread_gather *gather, const struct command *command)
{
    uint32_t count = gather->left = gather->spread->part_count;
    for (uint32_t part = 0; part < count; part++)
        spread_gather_ask(gather, part, command);
}
