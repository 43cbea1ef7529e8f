#include "queue/check.h"
#include "queue/sharded_private.h"

#include <assert.h>
#include <stdlib.h>

static struct sharded *sharded_of(struct queue *queue)
{
    return (struct sharded *)(void *)queue;
}

void sharded_send(struct sharded *sharded, uint32_t part, const struct command *command,
                  struct queue_reply_to reply_to)
{
    command_send(sharded->parts[part].queue, command, reply_to);
}

void sharded_refuse(struct sharded *sharded, enum queue_status status,
                    struct queue_reply_to reply_to)
{
    sharded->options.refuse(sharded->options.ctx, status, reply_to);
}

static void submit_items(struct sharded *sharded, const struct command *command,
                         struct queue_reply_to reply_to)
{
    assert(command->count <= QUEUE_BATCH_MAX);
    if (sharded->part_count == 1)
        sharded_send(sharded, 0, command, reply_to);
    else
        sharded_items(sharded, command, reply_to);
}

/* An id must be known before its part is: pushes without one get it here, in a copy. */
static const struct queue_push *with_ids(struct sharded *sharded, const struct queue_push *pushes,
                                         size_t count)
{
    size_t i = 0;
    while (i < count && pushes[i].id.len)
        i++;
    if (i == count)
        return pushes;
    int64_t wall_ms = sharded->options.wall_ms();
    memcpy(sharded->pushes, pushes, count * sizeof *pushes);
    for (; i < count; i++) {
        if (pushes[i].id.len)
            continue;
        ulid_write(&sharded->ulid, wall_ms, sharded->ids[i]);
        sharded->pushes[i].id = slice_make(sharded->ids[i], ULID_BYTES);
        sharded->pushes[i].id_is_made = true;
    }
    return sharded->pushes;
}

static void on_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                    struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    assert(count <= QUEUE_BATCH_MAX);
    struct command command = {
        .kind = COMMAND_PUSH, .count = count, .pushes = with_ids(sharded, pushes, count)};
    submit_items(sharded, &command, reply_to);
}

static void on_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                      struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    struct command command = {.kind = COMMAND_ANSWER, .count = count, .answers = answers};
    submit_items(sharded, &command, reply_to);
}

static void on_change(struct queue *queue, const struct queue_change *changes, size_t count,
                      struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    struct command command = {.kind = COMMAND_CHANGE, .count = count, .changes = changes};
    submit_items(sharded, &command, reply_to);
}

static void on_take(struct queue *queue, const struct queue_take *take,
                    struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    struct command command = {.kind = COMMAND_TAKE, .take = *take};
    const char *detail;
    enum queue_status status = queue_check_take(take, &detail);
    if (status != QUEUE_OK)
        sharded_refuse(sharded, status, reply_to);
    else if (sharded->part_count == 1)
        sharded_send(sharded, 0, &command, reply_to);
    else
        sharded_take(sharded, &command, reply_to);
}

static uint32_t part_of_job(const struct sharded *sharded, struct slice topic, struct slice id)
{
    uint32_t part = sharded->options.part_of_job(sharded->options.ctx, topic, id);
    assert(part < sharded->part_count);
    return part;
}

static void on_get(struct queue *queue, struct slice topic, struct slice id,
                   struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    struct queue *part = sharded->parts[part_of_job(sharded, topic, id)].queue;
    queue_get(part, topic, id, reply_to);
}

static void on_list(struct queue *queue, const struct queue_list *list,
                    struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    struct command command = {.kind = COMMAND_LIST, .list = *list};
    const char *detail;
    enum queue_status status = queue_check_list(list, &detail);
    if (status != QUEUE_OK)
        sharded_refuse(sharded, status, reply_to);
    else if (sharded->part_count == 1)
        sharded_send(sharded, 0, &command, reply_to);
    else
        sharded_list(sharded, &command, reply_to);
}

static void on_topic(struct queue *queue, const struct queue_topic_call *call,
                     struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    struct command command = {.kind = COMMAND_TOPIC, .topic = *call};
    const char *detail;
    enum queue_status status = queue_check_topic(call, &detail);
    if (status != QUEUE_OK)
        sharded_refuse(sharded, status, reply_to);
    else if (sharded->part_count == 1)
        sharded_send(sharded, 0, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_REDRIVE && call->id.len)
        sharded_send(sharded, part_of_job(sharded, call->topic, call->id), &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_PAUSE)
        sharded_pause(sharded, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_PUT || call->verb == QUEUE_TOPIC_RESUME)
        sharded_lead(sharded, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_DELETE)
        sharded_delete(sharded, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_REDRIVE && call->max)
        sharded_redrive(sharded, &command, reply_to);
    else
        sharded_sum(sharded, &command, reply_to);
}

/* A part's topics come in no order: they are sorted here also where there is one part. */
static void on_topics(struct queue *queue, struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPICS};
    sharded_sum(sharded_of(queue), &command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct sharded *sharded = sharded_of(queue);
    int64_t sum = watch_count(sharded->watched, topic, on ? 1 : -1);
    if (sum != (on ? 1 : 0))
        return;
    for (uint32_t i = 0; i < sharded->part_count; i++)
        queue_watch(sharded->parts[i].queue, topic, on);
}

static void on_ready(void *owner, struct slice topic)
{
    struct sharded_part *part = owner;
    struct sharded *sharded = part->sharded;
    sharded->take_from = (uint32_t)(part - sharded->parts);
    if (sharded->queue.on_ready)
        sharded->queue.on_ready(sharded->queue.on_ready_owner, topic);
}

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct queue *whole = &((struct sharded_part *)owner)->sharded->queue;
    if (whole->on_event)
        whole->on_event(whole->on_event_owner, event, topic);
}

/* What all parts have in common is the first one's word. */
static void on_info(struct queue *queue, struct queue_info *out)
{
    struct sharded *sharded = sharded_of(queue);
    for (uint32_t i = 0; i < sharded->part_count; i++) {
        struct queue_info part = {0};
        queue_info(sharded->parts[i].queue, &part);
        if (i == 0) {
            *out = part;
            continue;
        }
        out->shards += part.shards;
        out->bytes_on_disk += part.bytes_on_disk;
        out->cold_jobs += part.cold_jobs;
        out->runs += part.runs;
        out->checkpoints += part.checkpoints;
        out->checkpoints_failed += part.checkpoints_failed;
        out->healthy &= part.healthy;
        out->accepting &= part.accepting;
        out->moved |= part.moved;
    }
}

static const struct queue_ops sharded_ops = {.push = on_push,
                                             .take = on_take,
                                             .answer = on_answer,
                                             .change = on_change,
                                             .get = on_get,
                                             .list = on_list,
                                             .topic = on_topic,
                                             .topics = on_topics,
                                             .watch = on_watch,
                                             .info = on_info};

struct sharded *sharded_new(const struct sharded_options *options)
{
    assert(options->part_count >= 1 && options->part_count <= SHARDED_PARTS_MAX);
    assert(options->home < options->part_count);
    struct sharded *sharded = calloc(1, sizeof *sharded);
    if (!sharded)
        return NULL;
    sharded->queue.ops = &sharded_ops;
    sharded->options = *options;
    sharded->part_count = options->part_count;
    sharded->take_from = options->home;
    sharded->watched = watch_table_new();
    sharded->pushes = malloc(QUEUE_BATCH_MAX * sizeof *sharded->pushes);
    sharded->ids = malloc(QUEUE_BATCH_MAX * sizeof *sharded->ids);
    ulid_init(&sharded->ulid, options->seed);
    if (!sharded->watched || !sharded->pushes || !sharded->ids) {
        sharded_free(sharded);
        return NULL;
    }
    for (uint32_t i = 0; i < sharded->part_count; i++) {
        struct sharded_part *part = &sharded->parts[i];
        *part = (struct sharded_part){.sharded = sharded, .queue = options->parts[i]};
        part->queue->on_ready = on_ready;
        part->queue->on_ready_owner = part;
        part->queue->on_event = on_event;
        part->queue->on_event_owner = part;
    }
    return sharded;
}

void sharded_free(struct sharded *sharded)
{
    if (!sharded)
        return;
    watch_table_free(sharded->watched);
    free(sharded->pushes);
    free(sharded->ids);
    free(sharded);
}

struct queue *sharded_queue(struct sharded *sharded)
{
    return &sharded->queue;
}

bool sharded_has_listener(const struct sharded *sharded)
{
    return sharded->queue.on_event != NULL;
}
