#include "local/handle.h"
#include "base/clock.h"
#include "queue/check.h"

#include <assert.h>

static struct handle *handle_of(struct queue *queue)
{
    return (struct handle *)(void *)queue;
}

static void submit_items(struct handle *handle, const struct command *command,
                         struct queue_reply_to reply_to)
{
    assert(command->count <= QUEUE_BATCH_MAX);
    if (handle->local->shard_count == 1)
        shard_submit(handle->local->shards[0], command, reply_to);
    else
        gather_items(handle, command, reply_to);
}

/* An id must be known before its shard is: pushes without one get it here, in a copy. */
static const struct queue_push *with_ids(struct handle *handle, const struct queue_push *pushes,
                                         size_t count)
{
    size_t i = 0;
    while (i < count && pushes[i].id.len)
        i++;
    if (i == count)
        return pushes;
    int64_t wall_ms = clock_wall_ms();
    memcpy(handle->pushes, pushes, count * sizeof *pushes);
    for (; i < count; i++) {
        if (pushes[i].id.len)
            continue;
        ulid_write(&handle->ulid, wall_ms, handle->ids[i]);
        handle->pushes[i].id = slice_make(handle->ids[i], ULID_BYTES);
    }
    return handle->pushes;
}

static void on_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                    struct queue_reply_to reply_to)
{
    struct handle *handle = handle_of(queue);
    assert(count <= QUEUE_BATCH_MAX);
    struct command command = {
        .kind = COMMAND_PUSH, .count = count, .pushes = with_ids(handle, pushes, count)};
    submit_items(handle, &command, reply_to);
}

static void on_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                      struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_ANSWER, .count = count, .answers = answers};
    submit_items(handle_of(queue), &command, reply_to);
}

static void on_change(struct queue *queue, const struct queue_change *changes, size_t count,
                      struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_CHANGE, .count = count, .changes = changes};
    submit_items(handle_of(queue), &command, reply_to);
}

static void on_take(struct queue *queue, const struct queue_take *take,
                    struct queue_reply_to reply_to)
{
    struct handle *handle = handle_of(queue);
    struct command command = {.kind = COMMAND_TAKE, .take = *take};
    const char *detail;
    enum queue_status status = queue_check_take(take, &detail);
    if (status != QUEUE_OK)
        route_refuse(handle, status, reply_to);
    else if (handle->local->shard_count == 1)
        shard_submit(handle->local->shards[0], &command, reply_to);
    else
        gather_take(handle, &command, reply_to);
}

static void on_get(struct queue *queue, struct slice topic, struct slice id,
                   struct queue_reply_to reply_to)
{
    struct handle *handle = handle_of(queue);
    struct command command = {.kind = COMMAND_GET, .get = {.topic = topic, .id = id}};
    route_send(handle, route_of_job(handle, topic, id), &command, reply_to);
}

static void on_list(struct queue *queue, const struct queue_list *list,
                    struct queue_reply_to reply_to)
{
    struct handle *handle = handle_of(queue);
    struct command command = {.kind = COMMAND_LIST, .list = *list};
    const char *detail;
    enum queue_status status = queue_check_list(list, &detail);
    if (status != QUEUE_OK)
        route_refuse(handle, status, reply_to);
    else
        gather_all(handle, &command, reply_to);
}

static void on_topic(struct queue *queue, const struct queue_topic_call *call,
                     struct queue_reply_to reply_to)
{
    struct handle *handle = handle_of(queue);
    struct command command = {.kind = COMMAND_TOPIC, .topic = *call};
    const char *detail;
    enum queue_status status = queue_check_topic(call, &detail);
    if (status != QUEUE_OK)
        route_refuse(handle, status, reply_to);
    else if (call->verb == QUEUE_TOPIC_REDRIVE && call->id.len)
        route_send(handle, route_of_job(handle, call->topic, call->id), &command, reply_to);
    else if (handle->local->shard_count > 1 && call->verb == QUEUE_TOPIC_PAUSE)
        gather_pause(handle, &command, reply_to);
    else if (handle->local->shard_count > 1 && call->verb == QUEUE_TOPIC_REDRIVE && call->max)
        gather_redrive(handle, &command, reply_to);
    else
        gather_all(handle, &command, reply_to);
}

static void on_topics(struct queue *queue, struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPICS};
    gather_all(handle_of(queue), &command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct handle *handle = handle_of(queue);
    int64_t sum = watch_count(handle->watched, topic, on ? 1 : -1);
    if (sum != (on ? 1 : 0))
        return;
    for (uint32_t shard = 0; shard < handle->local->shard_count; shard++)
        route_watch(handle, shard, topic, on);
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    const struct local *local = handle_of(queue)->local;
    *out = (struct queue_info){.store = "embedded",
                               .shards = local->shard_count,
                               .body_bytes_max = local->options.body_bytes_max,
                               .healthy = true,
                               .accepting = true};
    switch (local->options.sync) {
    case WAL_SYNC_ALWAYS:
        out->sync = out->durability_class = "always";
        out->durability = "an answered change survives a crash of the server and a power cut";
        break;
    case WAL_SYNC_INTERVAL:
        out->sync = local->sync_interval;
        out->durability_class = "interval";
        out->durability = "an answered change survives a crash of the server; a power cut may take "
                          "what the last sync interval brought";
        break;
    case WAL_SYNC_NEVER:
        out->sync = out->durability_class = "never";
        out->durability = "an answered change survives a crash of the server; what a power cut "
                          "takes is up to the operating system";
        break;
    }
    for (uint32_t i = 0; i < local->shard_count; i++) {
        struct shard_figures figures;
        shard_figures(local->shards[i], &figures);
        out->bytes_on_disk += figures.bytes_on_disk;
        out->healthy &= figures.healthy;
        out->accepting &= figures.accepting;
    }
}

const struct queue_ops handle_ops = {.push = on_push,
                                     .take = on_take,
                                     .answer = on_answer,
                                     .change = on_change,
                                     .get = on_get,
                                     .list = on_list,
                                     .topic = on_topic,
                                     .topics = on_topics,
                                     .watch = on_watch,
                                     .info = on_info};
