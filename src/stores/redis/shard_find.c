/* Find: checks whether jobs exist. A separate call. */
#include "queue/copy.h"
#include "redis/command.h"
#include "redis/id.h"
#include "redis/shard_calls.h"

#include <stdlib.h>

enum { FIND_ARGS = 2 };

struct find {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy; topics and ids of the results point into it */
    struct queue_result results[];
};

static void find_free(struct find *find)
{
    buffer_fini(&find->call.args);
    free(find->command);
    free(find);
}

static void on_found(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct find *find = list_entry(call, struct find, call);
    enum queue_status status = redis_shard_status(end);
    struct slice rest = {0};
    (void)reply;
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(find->shard, head);
        rest = head->rest;
    }
    for (size_t i = 0; i < find->command->count; i++) {
        struct queue_result *result = &find->results[i];
        if (!command_item_is_good(find->command, i, result))
            continue;
        if (status == QUEUE_OK && !redis_unpack_result(&rest, head->adjust_ms, result)) {
            redis_shard_log_malformed(find->shard, REDIS_FIND);
            status = QUEUE_UNAVAILABLE;
        }
        if (status != QUEUE_OK)
            result->status = status;
        result->topic = find->command->finds[i].topic;
        result->id = find->command->finds[i].id;
    }
    redis_shard_reply(
        find->shard, find->reply_to,
        &(struct queue_reply){.results = find->results, .result_count = find->command->count});
    find_free(find);
}

bool redis_find_begin(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct find *find = calloc(1, sizeof *find + command->count * sizeof find->results[0]);
    if (!find)
        return false;
    find->shard = shard;
    find->reply_to = reply_to;
    find->command = copy_command(command);
    redis_shard_call_init(&find->call, REDIS_FIND, false, on_found);
    size_t args = 0;
    for (size_t i = 0; find->command && i < command->count; i++) {
        char room[REDIS_ID_PACKED_BYTES];
        struct queue_result unused;
        if (!command_item_is_good(command, i, &unused))
            continue;
        redis_command_arg(&find->call.args, command->finds[i].topic);
        redis_command_arg(&find->call.args, redis_id_store(command->finds[i].id, room));
        args += FIND_ARGS;
    }
    if (find->command && redis_shard_send(shard, &find->call, args))
        return true;
    find_free(find);
    return false;
}
