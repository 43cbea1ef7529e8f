#include "queue/check.h"
#include "queue/spread_private.h"

#include <assert.h>
#include <stdlib.h>

static struct spread *spread_of(struct queue *queue)
{
    return (struct spread *)(void *)queue;
}

void spread_send(struct spread *spread, uint32_t part, const struct command *command,
                 struct queue_reply_to reply_to)
{
    command_send(spread->parts[part].queue, command, reply_to);
}

void spread_refuse(struct spread *spread, enum queue_status status, struct queue_reply_to reply_to)
{
    spread->options.refuse(spread->options.ctx, status, reply_to);
}

static void submit_items(struct spread *spread, const struct command *command,
                         struct queue_reply_to reply_to)
{
    assert(command->count <= QUEUE_BATCH_MAX);
    if (spread->part_count == 1)
        spread_send(spread, 0, command, reply_to);
    else
        spread_items(spread, command, reply_to);
}

/* An id must be known before its part is: pushes without one get it here, in a copy. */
static const struct queue_push *with_ids(struct spread *spread, const struct queue_push *pushes,
                                         size_t count)
{
    size_t i = 0;
    while (i < count && pushes[i].id.len)
        i++;
    if (i == count)
        return pushes;
    int64_t wall_ms = spread->options.wall_ms();
    memcpy(spread->pushes, pushes, count * sizeof *pushes);
    for (; i < count; i++) {
        if (pushes[i].id.len)
            continue;
        ulid_write(&spread->ulid, wall_ms, spread->ids[i]);
        spread->pushes[i].id = slice_make(spread->ids[i], ULID_BYTES);
        spread->pushes[i].id_is_made = true;
    }
    return spread->pushes;
}

static void on_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                    struct queue_reply_to reply_to)
{
    struct spread *spread = spread_of(queue);
    assert(count <= QUEUE_BATCH_MAX);
    struct command command = {
        .kind = COMMAND_PUSH, .count = count, .pushes = with_ids(spread, pushes, count)};
    submit_items(spread, &command, reply_to);
}

static void on_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                      struct queue_reply_to reply_to)
{
    struct spread *spread = spread_of(queue);
    struct command command = {.kind = COMMAND_ANSWER, .count = count, .answers = answers};
    submit_items(spread, &command, reply_to);
}

static void on_change(struct queue *queue, const struct queue_change *changes, size_t count,
                      struct queue_reply_to reply_to)
{
    struct spread *spread = spread_of(queue);
    struct command command = {.kind = COMMAND_CHANGE, .count = count, .changes = changes};
    submit_items(spread, &command, reply_to);
}

static void on_take(struct queue *queue, const struct queue_take *take,
                    struct queue_reply_to reply_to)
{
    struct spread *spread = spread_of(queue);
    struct command command = {.kind = COMMAND_TAKE, .take = *take};
    const char *detail;
    enum queue_status status = queue_check_take(take, &detail);
    if (status != QUEUE_OK)
        spread_refuse(spread, status, reply_to);
    else if (spread->part_count == 1)
        spread_send(spread, 0, &command, reply_to);
    else
        spread_take(spread, &command, reply_to);
}

static uint32_t part_of_job(const struct spread *spread, struct slice topic, struct slice id)
{
    uint32_t part = spread->options.part_of_job(spread->options.ctx, topic, id);
    assert(part < spread->part_count);
    return part;
}

static void on_get(struct queue *queue, struct slice topic, struct slice id,
                   struct queue_reply_to reply_to)
{
    struct spread *spread = spread_of(queue);
    struct queue *part = spread->parts[part_of_job(spread, topic, id)].queue;
    part->ops->get(part, topic, id, reply_to);
}

static void on_list(struct queue *queue, const struct queue_list *list,
                    struct queue_reply_to reply_to)
{
    struct spread *spread = spread_of(queue);
    struct command command = {.kind = COMMAND_LIST, .list = *list};
    const char *detail;
    enum queue_status status = queue_check_list(list, &detail);
    if (status != QUEUE_OK)
        spread_refuse(spread, status, reply_to);
    else if (spread->part_count == 1)
        spread_send(spread, 0, &command, reply_to);
    else
        spread_list(spread, &command, reply_to);
}

static void on_topic(struct queue *queue, const struct queue_topic_call *call,
                     struct queue_reply_to reply_to)
{
    struct spread *spread = spread_of(queue);
    struct command command = {.kind = COMMAND_TOPIC, .topic = *call};
    const char *detail;
    enum queue_status status = queue_check_topic(call, &detail);
    if (status != QUEUE_OK)
        spread_refuse(spread, status, reply_to);
    else if (spread->part_count == 1)
        spread_send(spread, 0, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_REDRIVE && call->id.len)
        spread_send(spread, part_of_job(spread, call->topic, call->id), &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_PAUSE)
        spread_pause(spread, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_PUT || call->verb == QUEUE_TOPIC_RESUME)
        spread_lead(spread, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_DELETE)
        spread_delete(spread, &command, reply_to);
    else if (call->verb == QUEUE_TOPIC_REDRIVE && call->max)
        spread_redrive(spread, &command, reply_to);
    else
        spread_sum(spread, &command, reply_to);
}

/* A part's topics come in no order: they are sorted here also where there is one part. */
static void on_topics(struct queue *queue, struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPICS};
    spread_sum(spread_of(queue), &command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct spread *spread = spread_of(queue);
    int64_t sum = watch_count(spread->watched, topic, on ? 1 : -1);
    if (sum != (on ? 1 : 0))
        return;
    for (uint32_t i = 0; i < spread->part_count; i++)
        spread->parts[i].queue->ops->watch(spread->parts[i].queue, topic, on);
}

static void on_ready(void *owner, struct slice topic)
{
    struct spread_part *part = owner;
    struct spread *spread = part->spread;
    spread->take_from = (uint32_t)(part - spread->parts);
    if (spread->queue.on_ready)
        spread->queue.on_ready(spread->queue.on_ready_owner, topic);
}

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct queue *whole = &((struct spread_part *)owner)->spread->queue;
    if (whole->on_event)
        whole->on_event(whole->on_event_owner, event, topic);
}

/* What all parts have in common is the first one's word. */
static void on_info(struct queue *queue, struct queue_info *out)
{
    struct spread *spread = spread_of(queue);
    for (uint32_t i = 0; i < spread->part_count; i++) {
        struct queue_info part = {0};
        spread->parts[i].queue->ops->info(spread->parts[i].queue, &part);
        if (i == 0) {
            *out = part;
            continue;
        }
        out->shards += part.shards;
        out->bytes_on_disk += part.bytes_on_disk;
        out->far_jobs += part.far_jobs;
        out->runs += part.runs;
        out->checkpoints += part.checkpoints;
        out->checkpoints_failed += part.checkpoints_failed;
        out->healthy &= part.healthy;
        out->accepting &= part.accepting;
        out->moved |= part.moved;
    }
}

static const struct queue_ops spread_ops = {.push = on_push,
                                            .take = on_take,
                                            .answer = on_answer,
                                            .change = on_change,
                                            .get = on_get,
                                            .list = on_list,
                                            .topic = on_topic,
                                            .topics = on_topics,
                                            .watch = on_watch,
                                            .info = on_info};

struct spread *spread_new(const struct spread_options *options)
{
    assert(options->part_count >= 1 && options->part_count <= SPREAD_PARTS_MAX);
    assert(options->home < options->part_count);
    struct spread *spread = calloc(1, sizeof *spread);
    if (!spread)
        return NULL;
    spread->queue.ops = &spread_ops;
    spread->options = *options;
    spread->part_count = options->part_count;
    spread->take_from = options->home;
    spread->watched = watch_table_new();
    spread->pushes = malloc(QUEUE_BATCH_MAX * sizeof *spread->pushes);
    spread->ids = malloc(QUEUE_BATCH_MAX * sizeof *spread->ids);
    ulid_init(&spread->ulid, options->seed);
    if (!spread->watched || !spread->pushes || !spread->ids) {
        spread_free(spread);
        return NULL;
    }
    for (uint32_t i = 0; i < spread->part_count; i++) {
        struct spread_part *part = &spread->parts[i];
        *part = (struct spread_part){.spread = spread, .queue = options->parts[i]};
        part->queue->on_ready = on_ready;
        part->queue->on_ready_owner = part;
        part->queue->on_event = on_event;
        part->queue->on_event_owner = part;
    }
    return spread;
}

void spread_free(struct spread *spread)
{
    if (!spread)
        return;
    watch_table_free(spread->watched);
    free(spread->pushes);
    free(spread->ids);
    free(spread);
}

struct queue *spread_queue(struct spread *spread)
{
    return &spread->queue;
}

bool spread_has_listener(const struct spread *spread)
{
    return spread->queue.on_event != NULL;
}
