/* Holds of a sharded queue: an answer holds a group, or a topic, in the part of its job, and the other parts must hold it too. */
#include "queue/sharded_gather.h"

#include "queue/copy.h"

#include <stdlib.h>

struct holding {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command;   /* the answers; a copy */
    struct queue_reply *reply; /* to them; a copy */
    size_t left;               /* calls without a reply, plus one until all were sent */
};

bool sharded_has_holds(const struct command *command)
{
    if (command->kind != COMMAND_ANSWER)
        return false;
    for (size_t i = 0; i < command->count; i++)
        if (command->answers[i].hold_ms)
            return true;
    return false;
}

static void holding_free(struct holding *holding)
{
    holding->sharded->under_way--;
    free(holding->command);
    free(holding->reply);
    free(holding);
}

/* Replies once all parts have the holds. A part that rejected a hold, because it is away or has no memory, continues to deliver the group: the
 * answer was carried out, so its reply stays as it is. */
static void holding_done(struct holding *holding)
{
    if (--holding->left)
        return;
    /* Topics and groups are for the parts only. The copy of the reply is this call's own. */
    struct queue_result *results = (struct queue_result *)(uintptr_t)holding->reply->results;
    for (size_t i = 0; i < holding->reply->result_count; i++)
        results[i].topic = results[i].group = (struct slice){0};
    holding->reply_to.done(holding->reply_to.owner, holding->reply_to.tag, holding->reply);
    holding_free(holding);
}

static void part_held(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    holding_done(owner);
}

/* Sends the hold of an answer to all parts but the one that has it. */
static void hold_others(struct holding *holding, size_t i)
{
    struct sharded *sharded = holding->sharded;
    const struct queue_result *result = &holding->reply->results[i];
    struct command hold = {.kind = COMMAND_GROUP,
                           .group = {.verb = QUEUE_GROUP_HOLD,
                                     .topic = result->topic,
                                     .group = result->group,
                                     .hold_ms = holding->command->answers[i].hold_ms}};
    uint32_t own = sharded_part_of_item(sharded, holding->command, i);
    for (uint32_t part = 0; part < sharded->part_count; part++) {
        if (part == own)
            continue;
        holding->left++;
        sharded_send(sharded, part, &hold,
                     (struct queue_reply_to){.done = part_held, .owner = holding});
    }
}

/* Returns whether the hold of an answer began, and no earlier one of the call holds the same group at least as long. */
static bool hold_is_needed(const struct holding *holding, size_t i)
{
    const struct queue_result *results = holding->reply->results;
    const struct queue_answer *answers = holding->command->answers;
    if (!results[i].topic.len || sharded_is_one_by_name(holding->sharded, results[i].topic))
        return false;
    for (size_t j = 0; j < i; j++)
        if (answers[j].hold_ms >= answers[i].hold_ms &&
            slice_equals(results[j].topic, results[i].topic) &&
            slice_equals(results[j].group, results[i].group))
            return false;
    return true;
}

static void answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct holding *holding = owner;
    (void)tag;
    if (!(holding->reply = copy_reply(reply))) {
        /* The answers were carried out; only the other parts lack the holds. */
        holding->reply_to.done(holding->reply_to.owner, holding->reply_to.tag, reply);
        holding_free(holding);
        return;
    }
    holding->left = 1;
    for (size_t i = 0; i < holding->reply->result_count && i < holding->command->count; i++)
        if (hold_is_needed(holding, i))
            hold_others(holding, i);
    holding_done(holding);
}

void sharded_answers_with_holds(struct sharded *sharded, const struct command *command,
                                struct queue_reply_to reply_to)
{
    struct holding *holding = calloc(1, sizeof *holding);
    struct command *copy = copy_command(command);
    if (!holding || !copy) {
        free(holding);
        free(copy);
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    sharded->under_way++;
    *holding = (struct holding){.sharded = sharded, .reply_to = reply_to, .command = copy};
    sharded_items(sharded, copy, (struct queue_reply_to){.done = answered, .owner = holding});
}
