/* Answers: those of a turn travel together, whatever their topics. */
#include "redis/id.h"
#include "redis/lease.h"
#include "redis/private.h"

static enum queue_status add(struct redis_shard *shard, const struct queue_answer *answer,
                             struct redis_request *request, uint32_t index)
{
    uint32_t number;
    uint64_t delivery;
    if (!redis_lease_find_shard(answer->lease, &number) || number != shard->options.index)
        return QUEUE_LEASE_ENDED;
    const struct mac_key *key = redis_session_lease_key(shard->session);
    if (!key) /* before the first connection nobody can tell a good lease */
        return QUEUE_UNAVAILABLE;
    if (!redis_lease_parse(answer->lease, key, &number, &delivery))
        return QUEUE_LEASE_ENDED;
    struct redis_batch *batch =
        redis_batch_need(shard, REDIS_BATCH_ANSWER, (struct slice){.at = ""}, 0);
    if (!batch)
        return QUEUE_NO_MEMORY;
    redis_pack_answer(&batch->call.args, answer, delivery);
    redis_batch_add(batch, request, index);
    return QUEUE_OK;
}

void redis_answer(struct redis_shard *shard, const struct command *command,
                  struct queue_reply_to reply_to)
{
    size_t count = command->count;
    struct redis_request *request =
        redis_request_open(shard, count, count * JOB_ID_BYTES_MAX, reply_to);
    if (!request)
        return;
    for (size_t i = 0; i < count; i++) {
        struct queue_result *result = &request->results[i];
        if (command_item_is_good(command, i, result))
            result->status = add(shard, &command->answers[i], request, (uint32_t)i);
        if (result->status != QUEUE_OK)
            redis_request_item_done(request);
    }
    redis_request_begun(request);
}

/* Topic NUL id, as stored; empty where the lease was not good. */
static bool split_name(struct slice name, struct slice *topic, struct slice *stored)
{
    const char *nul = name.len ? memchr(name.at, 0, name.len) : NULL;
    if (!nul)
        return false;
    *topic = slice_make(name.at, (size_t)(nul - name.at));
    *stored = slice_make(nul + 1, name.len - topic->len - 1);
    return true;
}

/* The id outlives the answer: other items of the request may still be under way. */
static void keep_id(struct redis_request *request, uint32_t index, struct slice stored)
{
    char room[REDIS_ID_ROOM_BYTES];
    size_t at = (size_t)index * JOB_ID_BYTES_MAX;
    struct slice id;
    if (redis_id_show(stored, room, &id) && id.len <= JOB_ID_BYTES_MAX)
        request->results[index].id = redis_request_text(request, &at, id);
}

static bool finish_item(struct redis_batch *batch, size_t i, struct slice *rest, int64_t adjust_ms,
                        const redisReply *reply)
{
    struct redis_request *request = batch->items[i].owner;
    uint32_t index = batch->items[i].index;
    struct queue_result *result = &request->results[index];
    struct slice name, topic, stored;
    bool good =
        redis_unpack_answered(rest, adjust_ms, result) && redis_element(reply, 1 + i, &name);
    if (good && split_name(name, &topic, &stored)) {
        keep_id(request, index, stored);
        if (result->state == JOB_READY)
            redis_watch_tell(batch->shard, topic);
    }
    if (!good)
        result->status = QUEUE_UNAVAILABLE;
    redis_request_item_done(request);
    return good;
}

void redis_answer_done(struct redis_batch *batch, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply)
{
    bool malformed = false;
    if (end != REDIS_CALL_OK) {
        redis_batch_fail(batch, redis_shard_status(end));
        return;
    }
    struct slice rest = head->rest;
    for (size_t i = 0; i < batch->count; i++)
        malformed |= !finish_item(batch, i, &rest, head->adjust_ms, reply);
    if (malformed)
        redis_shard_say_malformed(batch->shard, batch->call.script);
}
