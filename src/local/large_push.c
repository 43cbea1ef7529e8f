#include "local/large_push.h"

#include "queue/copy.h"

#include <stdlib.h>

struct large_push {
    struct shard *shard;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy, which the results' topics and ids point into */
    size_t done;             /* items that have their result */
    struct queue_result results[];
};

bool large_push_is(const struct shard *shard, const struct command *command)
{
    size_t bytes = 0;
    if (command->kind != COMMAND_PUSH || command->count < 2)
        return false;
    for (size_t i = 0; i < command->count; i++)
        bytes += engine_room_push(&command->pushes[i]);
    return bytes > wal_room_max(shard->wal);
}

/* How many of the items that follow fit into one batch of the log; at least one. */
static size_t piece_items(const struct large_push *push)
{
    size_t room = wal_room_max(push->shard->wal), bytes = 0, items = 0;
    const struct queue_push *next = push->command->pushes + push->done;
    for (size_t left = push->command->count - push->done; items < left; items++) {
        bytes += engine_room_push(&next[items]);
        if (bytes > room && items)
            break;
    }
    return items;
}

static void large_push_finish(struct large_push *push)
{
    struct queue_reply reply = {.results = push->results, .result_count = push->command->count};
    push->reply_to.done(push->reply_to.owner, push->reply_to.tag, &reply);
    free(push->command);
    free(push);
}

static void send_piece(struct large_push *push);

/* A piece refused as a whole ends it: the items before it stand, the rest is refused alike. */
static void piece_done(void *owner, uint64_t items, const struct queue_reply *reply)
{
    struct large_push *push = owner;
    bool is_refused = reply->result_count != items;
    size_t until = is_refused ? push->command->count : push->done + items;
    for (size_t i = 0; push->done < until; i++, push->done++) {
        struct queue_result *result = &push->results[push->done];
        if (is_refused)
            result->status = reply->status;
        else
            *result = reply->results[i];
        result->topic = push->command->pushes[push->done].topic;
        result->id = push->command->pushes[push->done].id;
    }
    if (push->done < push->command->count)
        send_piece(push);
    else
        large_push_finish(push);
}

static void send_piece(struct large_push *push)
{
    struct command piece = {.kind = COMMAND_PUSH,
                            .count = piece_items(push),
                            .checks =
                                push->command->checks ? push->command->checks + push->done : NULL,
                            .pushes = push->command->pushes + push->done};
    shard_submit(push->shard, &piece,
                 (struct queue_reply_to){.done = piece_done, .owner = push, .tag = piece.count});
}

void large_push_start(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct large_push *push =
        calloc(1, sizeof *push + command->count * sizeof(struct queue_result));
    struct command *copy = copy_command(command);
    if (!push || !copy) {
        free(push);
        free(copy);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *push = (struct large_push){.shard = shard, .reply_to = reply_to, .command = copy};
    send_piece(push);
}
