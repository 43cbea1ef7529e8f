/* Pushes, answers, changes and finds of a sharded queue: split by part, the results joined in the order of the items. */
#include "queue/sharded_gather.h"
#include "queue/traits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Joins the results of all parts in the order of the items. */
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
        else /* the part rejected the whole call */
            results[i].status = part && part->status != QUEUE_OK ? part->status : QUEUE_NO_MEMORY;
    }
    struct queue_reply reply = {.results = results, .result_count = gather->count};
    sharded_gather_finish(gather, &reply);
    free(results);
}

/* Returns the part of the waiting job of a batch, for joins by its name, else by the number of the batch. */
static uint32_t part_of_batch(const struct sharded *sharded, const struct queue_batch_call *call)
{
    return call->verb == QUEUE_BATCH_JOIN ? sharded_part_of_job(sharded, call->topic, call->id)
                                          : (uint32_t)(call->number >> QUEUE_BATCH_HOME_SHIFT) - 1;
}

uint32_t sharded_part_of_item(const struct sharded *sharded, const struct command *command,
                              size_t i)
{
    const struct sharded_options *options = &sharded->options;
    uint32_t part;
    if (command->kind == COMMAND_BATCH && command->batches[i].verb != QUEUE_BATCH_LEASE)
        return part_of_batch(sharded, &command->batches[i]);
    if (command->kind != COMMAND_ANSWER && command->kind != COMMAND_BATCH) {
        struct queue_find name = command_item_name(command, i);
        return sharded_part_of_job(sharded, name.topic, name.id);
    }
    /* Any part rejects a token that belongs to no part. */
    struct slice lease =
        command->kind == COMMAND_BATCH ? command->batches[i].lease : command->answers[i].lease;
    if (!options->part_of_lease(options->ctx, lease, &part))
        part = options->home;
    assert(part < sharded->part_count);
    return part;
}

/* Sends the items of each part, in their order. They are collected in `items`, and their checks in `checks`. */
static void send_parts(struct sharded_gather *gather, const struct command *command, char *items,
                       struct queue_check *checks)
{
    size_t bytes = command_traits[command->kind].item_bytes;
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

/* Sets the part of each item, and counts the parts involved. */
static void split_items(struct sharded_gather *gather, const struct command *command)
{
    bool asked[SHARDED_PARTS_MAX] = {false};
    gather->count = command->count;
    for (size_t i = 0; i < command->count; i++) {
        uint32_t part = sharded_part_of_item(gather->sharded, command, i);
        gather->part_of[i] = (uint8_t)part;
        gather->left += !asked[part];
        asked[part] = true;
    }
}

void sharded_items(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to)
{
    if (command->count <= 1) {
        uint32_t part =
            command->count ? sharded_part_of_item(sharded, command, 0) : sharded->options.home;
        sharded_send(sharded, part, command, reply_to);
        return;
    }
    struct sharded_gather *gather = sharded_gather_new(sharded, join_items, reply_to);
    if (!gather)
        return;
    char *items = malloc(command->count * command_traits[command->kind].item_bytes);
    struct queue_check *checks = malloc(command->count * sizeof *checks);
    gather->part_of = malloc(command->count);
    if (items && checks && gather->part_of) {
        split_items(gather, command);
        send_parts(gather, command, items, checks);
    } else {
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        sharded_gather_free(gather);
    }
    free(items);
    free(checks);
}
