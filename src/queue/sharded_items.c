/* Push, answer, change: split by part, the results joined in the order of the items. */
#include "queue/sharded_private.h"

#include <assert.h>
#include <stdlib.h>

static void join_items(struct sharded_gather *gather)
{
    size_t next[SHARDED_PARTS_MAX] = {0};
    struct queue_result *results = calloc(gather->count, sizeof *results);
    if (!results) {
        sharded_gather_refuse(gather, QUEUE_NO_MEMORY);
        return;
    }
    for (size_t i = 0; i < gather->count; i++) {
        uint8_t at = gather->part_of[i];
        const struct queue_reply *part = gather->replies[at];
        if (part && part->result_count > next[at])
            results[i] = part->results[next[at]++];
        else /* the part as a whole was refused */
            results[i].status = part && part->status != QUEUE_OK ? part->status : QUEUE_NO_MEMORY;
    }
    struct queue_reply reply = {.results = results, .result_count = gather->count};
    sharded_gather_finish(gather, &reply);
    free(results);
}

static uint32_t part_of_item(const struct sharded *sharded, const struct command *command, size_t i)
{
    const struct sharded_options *options = &sharded->options;
    uint32_t part;
    if (command->kind == COMMAND_PUSH)
        return sharded_part_of_job(sharded, command->pushes[i].topic, command->pushes[i].id);
    if (command->kind == COMMAND_CHANGE)
        return sharded_part_of_job(sharded, command->changes[i].topic, command->changes[i].id);
    assert(command->kind == COMMAND_ANSWER);
    /* A token that is nobody's is refused as well by one part as by another. */
    if (!options->part_of_lease(options->ctx, command->answers[i].lease, &part))
        part = options->home;
    assert(part < sharded->part_count);
    return part;
}

static size_t item_bytes(enum command_kind kind)
{
    return kind == COMMAND_PUSH     ? sizeof(struct queue_push)
           : kind == COMMAND_CHANGE ? sizeof(struct queue_change)
                                    : sizeof(struct queue_answer);
}

/* Each part's items, in their order, one after the other in `items`, and in `checks` what is wrong with
 * them. */
static void send_parts(struct sharded_gather *gather, const struct command *command, char *items,
                       struct queue_check *checks)
{
    size_t bytes = item_bytes(command->kind);
    uint32_t part_count = gather->sharded->part_count;
    for (uint32_t at = 0; at < part_count; at++) {
        struct command part = {.kind = command->kind,
                               .checks = command->checks ? checks : NULL,
                               .pushes = (const struct queue_push *)(void *)items};
        for (size_t i = 0; i < command->count; i++) {
            if (gather->part_of[i] != at)
                continue;
            if (command->checks)
                checks[part.count] = command->checks[i];
            memcpy(items + part.count++ * bytes, (const char *)command->pushes + i * bytes, bytes);
        }
        if (part.count)
            sharded_gather_ask(gather, at, &part);
    }
}

static void split(struct sharded_gather *gather, const struct command *command)
{
    bool asked[SHARDED_PARTS_MAX] = {false};
    gather->count = command->count;
    for (size_t i = 0; i < command->count; i++) {
        uint32_t part = part_of_item(gather->sharded, command, i);
        gather->part_of[i] = (uint8_t)part;
        gather->left += !asked[part];
        asked[part] = true;
    }
}

void sharded_items(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to)
{
    if (command->count <= 1) {
        uint32_t part = command->count ? part_of_item(sharded, command, 0) : sharded->options.home;
        sharded_send(sharded, part, command, reply_to);
        return;
    }
    struct sharded_gather *gather = sharded_gather_new(sharded, join_items, reply_to);
    if (!gather)
        return;
    char *items = malloc(command->count * item_bytes(command->kind));
    struct queue_check *checks = malloc(command->count * sizeof *checks);
    gather->part_of = malloc(command->count);
    if (items && checks && gather->part_of) {
        split(gather, command);
        send_parts(gather, command, items, checks);
    } else {
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        sharded_gather_free(gather);
    }
    free(items);
    free(checks);
}
