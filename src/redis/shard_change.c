/* Cancels, reschedules and runs: those of a turn for the same topic travel together. */
#include "redis/private.h"

static enum queue_status add(struct redis_shard *shard, const struct queue_change *change,
                             struct redis_request *request, uint32_t index)
{
    struct redis_batch *batch = redis_batch_need(shard, REDIS_BATCH_CHANGE, change->topic, 0);
    if (!batch)
        return QUEUE_NO_MEMORY;
    redis_pack_change(&batch->call.args, change);
    redis_batch_add(batch, request, index);
    return QUEUE_OK;
}

static size_t text_bytes_of(const struct queue_change *changes, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += changes[i].topic.len + changes[i].id.len;
    return bytes;
}

void redis_change(struct redis_shard *shard, const struct command *command,
                  struct queue_reply_to reply_to)
{
    const struct queue_change *changes = command->changes;
    size_t count = command->count;
    struct redis_request *request =
        redis_request_open(shard, count, text_bytes_of(changes, count), reply_to);
    size_t used = 0;
    if (!request)
        return;
    for (size_t i = 0; i < count; i++) {
        struct queue_result *result = &request->results[i];
        result->topic = redis_request_text(request, &used, changes[i].topic);
        result->id = redis_request_text(request, &used, changes[i].id);
        if (command_item_is_good(command, i, result))
            result->status = add(shard, &changes[i], request, (uint32_t)i);
        if (result->status != QUEUE_OK)
            redis_request_item_done(request);
    }
    redis_request_begun(request);
}

void redis_change_done(struct redis_batch *batch, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply)
{
    bool any_ready = false, malformed = false;
    (void)reply;
    if (end != REDIS_CALL_OK) {
        redis_batch_fail(batch, redis_shard_status(end));
        return;
    }
    struct slice rest = head->rest;
    for (size_t i = 0; i < batch->count; i++) {
        struct redis_request *request = batch->items[i].owner;
        struct queue_result *result = &request->results[batch->items[i].index];
        if (malformed || !redis_unpack_result(&rest, head->adjust_ms, result)) {
            malformed = true;
            result->status = QUEUE_UNAVAILABLE;
        }
        any_ready |= result->state == JOB_READY;
        redis_request_item_done(request);
    }
    if (malformed)
        redis_shard_say_malformed(batch->shard, batch->call.script);
    if (any_ready)
        redis_watch_tell(batch->shard, slice_make(batch->topic, batch->topic_bytes));
}
