/* Pushes: those of a turn for the same topic travel together. */
#include "base/clock.h"
#include "base/log.h"
#include "redis/command.h"
#include "redis/private.h"

#include <stdlib.h>

static size_t text_bytes_of(const struct queue_push *pushes, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pushes[i].topic.len + pushes[i].id.len;
    return bytes;
}

static enum queue_status add(struct redis_shard *shard, const struct queue_push *push,
                             struct redis_request *request, uint32_t index)
{
    struct redis_batch *batch = redis_batch_need(shard, REDIS_BATCH_PUSH, push->topic, 0);
    if (!batch)
        return QUEUE_NO_MEMORY;
    redis_pack_push(&batch->call.args, push, push->id_is_made);
    redis_batch_add(batch, request, index);
    batch->items[batch->count - 1].when = push->when;
    return QUEUE_OK;
}

void redis_push(struct redis_shard *shard, const struct command *command,
                struct queue_reply_to reply_to)
{
    const struct queue_push *pushes = command->pushes;
    struct redis_request *request =
        redis_request_open(shard, command->count, text_bytes_of(pushes, command->count), reply_to);
    size_t used = 0;
    if (!request)
        return;
    for (size_t i = 0; i < command->count; i++) {
        struct queue_result *result = &request->results[i];
        result->topic = redis_request_text(request, &used, pushes[i].topic);
        result->id = redis_request_text(request, &used, pushes[i].id);
        if (command_item_is_good(command, i, result))
            result->status = add(shard, &pushes[i], request, (uint32_t)i);
        if (result->status != QUEUE_OK)
            redis_request_item_done(request);
    }
    redis_request_begun(request);
}

/* ---- whether there is room ---- */

struct probing {
    struct redis_call call;
    struct redis_shard *shard;
};

static void note_space(struct redis_shard *shard, enum redis_call_end end)
{
    if (end != REDIS_CALL_OK && end != REDIS_CALL_NO_SPACE)
        return;
    if (!shard->has_space && end == REDIS_CALL_OK)
        log_event(LOG_INFO, "redis has room again", LOG_NUMBER("shard", shard->options.index));
    shard->has_space = end == REDIS_CALL_OK;
}

void redis_push_note_full(struct redis_shard *shard)
{
    if (shard->has_space)
        log_event(LOG_WARN, "redis is full", LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("why", "maxmemory is met, or it cannot write to its disk"));
    shard->has_space = false;
}

static void on_probed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct probing *probing = list_entry(call, struct probing, call);
    (void)head;
    (void)reply;
    probing->shard->probing = false;
    note_space(probing->shard, end);
    buffer_fini(&call->args);
    free(probing);
}

void redis_push_probe(struct redis_shard *shard)
{
    struct probing *probing =
        shard->has_space || shard->probing ? NULL : calloc(1, sizeof *probing);
    if (!probing)
        return;
    probing->shard = shard;
    redis_shard_call_init(&probing->call, REDIS_PUSH, false, on_probed);
    redis_command_text(&probing->call.args, ""); /* no ticket */
    redis_command_text(&probing->call.args, ""); /* of no topic */
    redis_command_number(&probing->call.args, 0);
    shard->probing = redis_shard_send(shard, &probing->call, 3);
    if (shard->probing)
        return;
    buffer_fini(&probing->call.args);
    free(probing);
}

/* ---- ending ---- */

/* True where the answer was well-formed. */
static bool unpack_item(const struct redis_item *item, const struct redis_head *head,
                        struct slice *rest, struct queue_result *result)
{
    int64_t made_ms;
    if (redis_unpack_all_made(head->rest, &made_ms)) {
        redis_result_of_made(&item->when, made_ms, head->adjust_ms, result);
        return true;
    }
    return redis_unpack_result(rest, head->adjust_ms, result);
}

void redis_push_done(struct redis_batch *batch, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct redis_shard *shard = batch->shard;
    bool any_ready = false, malformed = false;
    (void)reply;
    note_space(shard, end);
    if (end != REDIS_CALL_OK) {
        redis_batch_fail(batch, redis_shard_status(end));
        return;
    }
    struct slice rest = head->rest;
    for (size_t i = 0; i < batch->count; i++) {
        struct redis_request *request = batch->items[i].owner;
        struct queue_result *result = &request->results[batch->items[i].index];
        if (malformed || !unpack_item(&batch->items[i], head, &rest, result)) {
            malformed = true;
            result->status = QUEUE_UNAVAILABLE;
        }
        any_ready |= result->state == JOB_READY;
        if (!malformed)
            redis_pack_note(shard, result->due_ms, head->now_ms - head->adjust_ms);
        redis_request_item_done(request);
    }
    if (malformed)
        redis_shard_say_malformed(shard, batch->call.script);
    if (any_ready)
        redis_watch_tell(shard, slice_make(batch->topic, batch->topic_bytes));
}
